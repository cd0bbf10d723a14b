//! Relayers between both chains: locked funds are delivered and repaid, or refunded; whatever relayers forget or drop,
//! no token is created or lost.

use alloy::consensus::TxEip1559;
use alloy::eips::eip2718::Encodable2718;
use alloy::primitives::{Address, Bytes, TxKind, U256};
use alloy::rpc::types::TransactionRequest;
use alloy::sol_types::SolCall;
use bardo::abi::erc20::{Erc20, OpenMint};
use bardo::abi::erc7683::{AcrossOrderData, DestinationSettler, OriginSettler};
use bardo::chain::permit2::Permit2Domain;
use bardo::intents::CrossChainIntent;
use bardo::intents::gateway::{BidRequest, IntentGateway};
use bardo::sandbox::actors::ActorRole;
use bardo::sandbox::contracts::PERMIT2;
use bardo::sandbox::keys::DevnetAccount;
use bardo::sandbox::plan::SandboxToken;
use bardo::sandbox::relayers::LocalRelayers;
use bardo::sandbox::{BlockPace, MarketMode, Sandbox, SandboxChain, SandboxConfig};

use crate::world::START;

const OPEN: u8 = 1;
const REPAID: u8 = 2;
const REFUNDED: u8 = 3;

struct Bridge {
    sandbox: Sandbox,
    user: DevnetAccount,
}

impl Bridge {
    fn new(seed: u64) -> Self {
        let config = SandboxConfig {
            seed,
            start_time: START,
            pace: BlockPace::Manual,
            clock: None,
            market: MarketMode::Off,
            keeper: true,
        };
        let sandbox = Sandbox::boot(&config, &|_| {}).unwrap();
        Self { sandbox, user: DevnetAccount::development_accounts().unwrap().swap_remove(0) }
    }

    fn chain(&self, name: &str) -> &SandboxChain {
        self.sandbox.chain(name).unwrap()
    }

    fn gateway(&self) -> LocalRelayers {
        let chain = self.chain("ethereum");
        let relayers = chain.background_actors.relayers().unwrap().clone();
        LocalRelayers::new(relayers, chain.devnet.clone(), chain.background_actors.clone())
    }

    async fn ask<C: SolCall + Send + 'static>(&self, name: &str, to: Address, call: C) -> C::Return
    where
        C::Return: Send + 'static,
    {
        let ask = move |chain: &mut bardo::chain::devnet::Chain| {
            let request = TransactionRequest {
                to: Some(TxKind::Call(to)),
                input: Bytes::from(call.abi_encode()).into(),
                ..Default::default()
            };
            chain.call(&request, alloy::eips::BlockId::latest(), None, None).unwrap().output
        };
        let output = self.chain(name).devnet.run(ask).await.unwrap();
        C::abi_decode_returns(&output).unwrap()
    }

    async fn send(&self, name: &str, to: Address, call: impl SolCall) {
        let (user, input) = (self.user.clone(), Bytes::from(call.abi_encode()));
        let send = move |chain: &mut bardo::chain::devnet::Chain| {
            let transaction = TxEip1559 {
                chain_id: chain.rules().chain_id,
                nonce: chain.pending_nonce(user.address()),
                gas_limit: 300_000,
                max_fee_per_gas: 100_000_000_000,
                max_priority_fee_per_gas: 1_000_000_000,
                to: TxKind::Call(to),
                value: U256::ZERO,
                access_list: Default::default(),
                input,
            };
            chain.submit_raw(&user.sign(transaction).unwrap().encoded_2718()).unwrap();
        };
        self.chain(name).devnet.run(send).await.unwrap();
    }

    async fn blocks(&self, count: usize) {
        for _ in 0..count {
            for chain in self.sandbox.chains() {
                chain.devnet.mine().await.unwrap();
            }
        }
    }

    async fn now(&self) -> u64 {
        let mut latest = 0;
        for chain in self.sandbox.chains() {
            latest = latest.max(chain.devnet.head().borrow().header.timestamp);
        }
        latest
    }

    fn token(&self, name: &str) -> Address {
        self.chain(name).deployment.token(SandboxToken::Usdc).unwrap()
    }

    async fn balance(&self, name: &str, owner: Address) -> U256 {
        self.ask(name, self.token(name), Erc20::balanceOfCall { owner }).await
    }

    fn settler(&self, key: &str) -> Address {
        self.chain("ethereum").deployment.contracts[key]
    }

    fn wish(&self, amount: u64) -> BidRequest {
        BidRequest {
            origin_chain_id: 31_337,
            destination_chain_id: 31_338,
            token_in: self.token("ethereum"),
            amount_in: U256::from(amount),
            token_out: self.token("base"),
        }
    }

    async fn intent(&self, nonce: u64, amount: u64, least: U256, seconds: u32) -> (CrossChainIntent, Bytes) {
        let now = u32::try_from(self.now().await).unwrap();
        let intent = CrossChainIntent {
            origin_settler: self.settler("originSettler"),
            user: self.user.address(),
            nonce: U256::from(nonce),
            origin_chain_id: 31_337,
            open_deadline: now + seconds,
            fill_deadline: now + seconds + seconds.min(40),
            data: AcrossOrderData {
                inputToken: self.token("ethereum"),
                inputAmount: U256::from(amount),
                outputToken: self.token("base"),
                outputAmount: least,
                destinationChainId: U256::from(31_338),
                recipient: self.user.address().into_word(),
                exclusiveRelayer: Address::ZERO,
                depositNonce: U256::ZERO,
                exclusivityPeriod: 0,
                message: Bytes::new(),
            },
        };
        let digest = intent.permit().digest(&Permit2Domain { chain_id: 31_337, permit2: PERMIT2 });
        let signature = self.user.sign_digest(31_337, digest).unwrap();
        (intent, signature)
    }

    async fn status(&self, intent: &CrossChainIntent) -> u8 {
        let call = OriginSettler::depositsCall { orderId: intent.id() };
        self.ask("ethereum", self.settler("originSettler"), call).await.status
    }
}

#[tokio::test]
async fn over_many_intents_and_failures_nothing_is_made_or_lost() {
    let bridge = Bridge::new(11);
    let user = bridge.user.address();
    bridge.send("ethereum", bridge.token("ethereum"), Erc20::approveCall { spender: PERMIT2, value: U256::MAX }).await;
    bridge.blocks(1).await;
    let had = (bridge.balance("ethereum", user).await, bridge.balance("base", user).await);
    let gateway = bridge.gateway();
    let mut intents = Vec::new();
    for nonce in 0..24u64 {
        let amount = 20_000_000 + nonce * 1_000_000;
        let bids = gateway.quote(&bridge.wish(amount)).await.unwrap();
        assert_eq!(bids.len(), 3);
        assert!(bids.windows(2).all(|two| two[0].output >= two[1].output) && bids[0].output < U256::from(amount));
        // Some leave so little time that they are locked at best, and not delivered.
        let seconds = if nonce % 4 == 3 { 3 } else { 40 };
        let least = bids[0].output * U256::from(995) / U256::from(1000);
        let (intent, signature) = bridge.intent(nonce, amount, least, seconds).await;
        assert_eq!(gateway.submit(&intent, &signature).await.unwrap(), intent.id());
        // A repeated submission has no further effect.
        assert_eq!(gateway.submit(&intent, &signature).await.unwrap(), intent.id());
        intents.push(intent);
    }
    bridge.blocks(170).await;
    let (mut locked, mut repaid, mut delivered, mut never) = (U256::ZERO, U256::ZERO, U256::ZERO, 0);
    for intent in &intents {
        let status = bridge.status(intent).await;
        let call = DestinationSettler::filledForCall { orderId: intent.id() };
        let filled = !bridge.ask("base", bridge.settler("destinationSettler"), call).await.is_zero();
        assert_eq!(status == REPAID, filled, "who delivers is repaid, and nobody else");
        match status {
            OPEN => locked += intent.data.inputAmount,
            REPAID => {
                repaid += intent.data.inputAmount;
                delivered += intent.data.outputAmount;
            }
            _ => never += 1,
        }
    }
    let settler = bridge.settler("originSettler");
    assert_eq!(bridge.balance("ethereum", settler).await, locked);
    assert_eq!(bridge.balance("ethereum", user).await, had.0 - locked - repaid);
    assert_eq!(bridge.balance("base", user).await, had.1 + delivered);
    // The seed leads to several kinds of ends.
    assert!(repaid > U256::ZERO && (locked > U256::ZERO || never > 0), "{locked} {repaid} {never}");

    for intent in &intents {
        if bridge.status(intent).await == OPEN {
            bridge.send("ethereum", settler, OriginSettler::refundCall { orderId: intent.id() }).await;
            bridge.blocks(1).await;
            assert_eq!(bridge.status(intent).await, REFUNDED);
        }
    }
    assert_eq!(bridge.balance("ethereum", settler).await, U256::ZERO);
    assert_eq!(bridge.balance("ethereum", user).await, had.0 - repaid);
    assert_eq!(bridge.balance("base", user).await, had.1 + delivered);
}

/// Number of sixteen intents over `amount` that are delivered if only the cheapest relayer accepts them, and its
/// remaining balance.
async fn by_the_cheapest(amount: u64) -> (usize, U256) {
    let bridge = Bridge::new(13);
    let user = bridge.user.address();
    let mint = OpenMint::mintCall { to: user, value: U256::from(16 * amount) };
    bridge.send("ethereum", bridge.token("ethereum"), mint).await;
    bridge.send("ethereum", bridge.token("ethereum"), Erc20::approveCall { spender: PERMIT2, value: U256::MAX }).await;
    bridge.blocks(1).await;
    let gateway = bridge.gateway();
    let had = bridge.balance("base", user).await;
    let mut intents = Vec::new();
    for nonce in 0..16u64 {
        let bids = gateway.quote(&bridge.wish(amount)).await.unwrap();
        let cheapest = bridge.chain("ethereum").background_actors.address(ActorRole::ThirdRelayer);
        assert_eq!(bids[0].relayer, cheapest);
        // More than the second would deliver.
        let least = (bids[0].output + bids[1].output) / U256::from(2);
        let (intent, signature) = bridge.intent(nonce, amount, least, 40).await;
        gateway.submit(&intent, &signature).await.unwrap();
        intents.push(intent);
    }
    bridge.blocks(170).await;
    let (mut delivered, mut came) = (0, U256::ZERO);
    for intent in &intents {
        if bridge.status(intent).await == REPAID {
            delivered += 1;
            came += intent.data.outputAmount;
        }
    }
    assert_eq!(bridge.balance("base", user).await, had + came);
    let left = bridge.balance("base", bridge.chain("base").background_actors.address(ActorRole::ThirdRelayer)).await;
    // Locked and undelivered funds are refunded.
    for intent in &intents {
        if bridge.status(intent).await == OPEN {
            let settler = bridge.settler("originSettler");
            bridge.send("ethereum", settler, OriginSettler::refundCall { orderId: intent.id() }).await;
            bridge.blocks(1).await;
            assert_eq!(bridge.status(intent).await, REFUNDED);
        }
    }
    (delivered, left)
}

#[tokio::test]
async fn a_relayer_that_has_run_dry_delivers_no_more() {
    // Its purse holds 4,000 dollars: two of 1,500, with too little left for a third.
    let (delivered, left) = by_the_cheapest(1_500_000_000).await;
    assert!(delivered == 2 && left < U256::from(1_500_000_000), "{delivered} {left}");
    // The same relayer delivers more small ones, so the purse was the limit.
    let (delivered, left) = by_the_cheapest(20_000_000).await;
    assert!(delivered > 2 && left > U256::from(1_500_000_000), "{delivered} {left}");
}

#[tokio::test]
async fn what_is_not_sound_is_not_taken() {
    let bridge = Bridge::new(12);
    let gateway = bridge.gateway();
    let (intent, signature) = bridge.intent(1, 20_000_000, U256::from(19_000_000), 40).await;
    let mut forged = signature.to_vec();
    forged[40] ^= 1;
    assert!(gateway.submit(&intent, &forged.into()).await.unwrap_err().to_string().contains("not"));
    let mut other = intent.clone();
    other.data.outputAmount += U256::from(1);
    assert!(gateway.submit(&other, &signature).await.is_err(), "the signature is over another intent");
    for change in [
        |intent: &mut CrossChainIntent| intent.origin_settler = Address::repeat_byte(1),
        |intent: &mut CrossChainIntent| intent.open_deadline = 1,
        |intent: &mut CrossChainIntent| intent.data.destinationChainId = U256::from(31_337),
        |intent: &mut CrossChainIntent| intent.data.destinationChainId = U256::from(1),
    ] {
        let mut wrong = intent.clone();
        change(&mut wrong);
        assert!(gateway.submit(&wrong, &signature).await.is_err());
    }
    assert_eq!(gateway.bids(intent.id()).await.unwrap(), None);
    gateway.submit(&intent, &signature).await.unwrap();
    assert!(gateway.bids(intent.id()).await.unwrap().is_some());
}
