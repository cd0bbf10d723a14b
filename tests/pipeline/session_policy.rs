//! The policy of a session key here against the delegation framework's enforcers, on drawn delegations and actions: nothing
//! is allowed here and refused on chain, and whatever is refused here the chain refuses too, when it is sent past the policy.
//!
//! Each action is a whole redemption of a signed delegation by the real manager, in calls that keep nothing. The delegate is
//! Multicall3, which makes many of them in one call; within it, the contracts count the calls of a delegation.

use std::collections::BTreeMap;
use std::sync::Arc;

use alloy::network::TransactionBuilder as _;
use alloy::primitives::{Address, B256, Bytes, U256};
use alloy::rpc::types::{BlockOverrides, TransactionRequest};
use alloy::sol_types::{SolCall as _, SolValue as _};
use alloy_signer::SignerSync as _;
use alloy_signer_local::PrivateKeySigner;
use bardo::abi::delegation::DelegationManager;
use bardo::abi::erc20::{Erc20, OpenMint, Weth9};
use bardo::abi::multicall3::Multicall3;
use bardo::abi::permit2::Permit2;
use bardo::abi::universal_router::UniversalRouter;
use bardo::base::clock::Clock;
use bardo::base::error::ErrorCode;
use bardo::base::text::SafeText;
use bardo::chain::devnet::Chain;
use bardo::chain::network::{KnownContract, NetworkKind};
use bardo::chain::sender::SenderRules;
use bardo::chain::token::TokenInfo;
use bardo::custody::delegated::{CallLimit, CallShape, DelegationGrant, DelegationLimits, DraftBounds};
use bardo::custody::session_keys::{self, SessionKeyRecord, SessionKeyState};
use bardo::custody::{DelegatedAccount, LocalAccount, SessionKeeper, SessionKeyId};
use bardo::safety::proposal::{LegPurpose, Outflow, PlanLeg, ProposalIntent};
use bardo::safety::{Account as _, FeeBound, PayloadContext};
use bardo::sandbox::Sandbox;

use super::delegated::become_a_delegator;
use bardo_testkit::harness::{TestHarness, party_key, sandbox};

/// Actions of one delegation.
const BATCH: usize = 40;

/// Actions that are drawn by default, and in the long form with `BARDO_LONG`.
const SOME: usize = 4_000;
const ALL: usize = 100_000;

/// Gas of a redemption's inner call.
const GAS: u64 = 300_000;

/// Random numbers by SplitMix64 (Steele, Lea and Flood 2014).
struct Draw(u64);

impl Draw {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.next() % end as u64).unwrap()
    }

    fn one<T: Clone>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())].clone()
    }

    /// At least one of them, in order.
    fn some<T: Clone>(&mut self, of: &[T]) -> Vec<T> {
        let sure = self.below(of.len());
        let drawn = of.iter().enumerate().filter(|(at, _)| *at == sure || self.chance(50));
        drawn.map(|(_, item)| item.clone()).collect()
    }

    fn chance(&mut self, percent: u64) -> bool {
        self.next() % 100 < percent
    }
}

/// Clock that stands still, in seconds since the Unix epoch.
#[derive(Debug)]
struct Stopped(u64);

impl Clock for Stopped {
    fn now_millis(&self) -> u64 {
        self.0 * 1_000
    }
}

/// An action, with the tokens that leave the owner by it.
struct Action {
    leg: PlanLeg,
    outflow: Option<(TokenInfo, U256)>,
}

struct Fuzz {
    world: TestHarness,
    sandbox: &'static Sandbox,
    owner: PrivateKeySigner,
    /// Time of the chain and the machine, in seconds since the Unix epoch.
    now: u64,
    usdc: Address,
    weth: Address,
    permit2: Address,
    router: Address,
    /// Addresses without code, of which some are listed.
    people: [Address; 3],
    draw: Draw,
}

impl Fuzz {
    async fn new(seed: u64) -> Self {
        let sandbox: &'static Sandbox = Box::leak(Box::new(sandbox(11)));
        let rules = SenderRules::for_network(NetworkKind::Devnet, 1_000);
        let world = TestHarness::in_step(sandbox, 0, rules).await;
        let owner = PrivateKeySigner::from_bytes(&B256::repeat_byte(0x5e)).unwrap();
        let (address, coin) = (owner.address(), U256::from(10).pow(U256::from(18)));
        let rich = move |chain: &mut Chain| chain.set_balance(address, coin * U256::from(1_000));
        sandbox.chains()[0].devnet.run(rich).await.unwrap();
        become_a_delegator(&world, &owner).await;
        let (usdc, weth) = (world.contract_of(&world.usdc), world.contract_of(&world.weth));
        world.send(usdc, OpenMint::mintCall { to: address, value: U256::from(1_000_000) }).await;
        world.send(weth, Erc20::transferCall { to: address, value: U256::from(1_000_000) }).await;
        let head = sandbox.chains()[0].devnet.run(|chain: &mut Chain| chain.head().header.timestamp).await.unwrap();
        Self {
            permit2: world.contract(KnownContract::Permit2),
            router: CallShape::swap(&world.client.network().book, usdc).unwrap()[2].target,
            people: [0x61, 0x62, 0x63].map(Address::repeat_byte),
            now: head + 1_000,
            draw: Draw(seed),
            world,
            sandbox,
            owner,
            usdc,
            weth,
        }
    }

    /// Calls with fixed arguments, from which a delegation has some.
    fn shapes(&self) -> Vec<CallShape> {
        let shape =
            |target, method: [u8; 4], fixed: &[(u8, Address)]| CallShape { target, method, fixed: fixed.to_vec() };
        vec![
            shape(self.usdc, Erc20::approveCall::SELECTOR, &[(0, self.permit2)]),
            shape(self.usdc, Erc20::transferCall::SELECTOR, &[(0, self.people[0])]),
            shape(self.weth, Erc20::transferCall::SELECTOR, &[]),
            shape(self.weth, Weth9::depositCall::SELECTOR, &[]),
            shape(self.permit2, Permit2::approveCall::SELECTOR, &[(0, self.usdc), (1, self.router)]),
            shape(self.router, UniversalRouter::execute_1Call::SELECTOR, &[]),
        ]
    }

    fn limits(&mut self) -> Vec<CallLimit> {
        let owner = self.owner.address();
        let contracts = [self.usdc, self.weth, self.permit2, self.router, self.people[0], self.people[1]];
        let end = 4_102_444_800;
        let (now, draw) = (self.now, &mut self.draw);
        // Mostly within its time: outside of it nothing else is seen.
        let (after, before) = match draw.chance(80) {
            true => (draw.one(&[0, now - 1]), draw.one(&[now + 1, end])),
            false => (draw.one(&[0, now, now + 1]), draw.one(&[now - 1, now, end])),
        };
        let mut limits = vec![CallLimit::Targets(draw.some(&contracts)), CallLimit::Time { after, before }];
        if draw.chance(40) {
            let methods = [
                Erc20::transferCall::SELECTOR,
                Erc20::approveCall::SELECTOR,
                Permit2::approveCall::SELECTOR,
                Weth9::depositCall::SELECTOR,
                [1, 2, 3, 4],
            ];
            limits.push(CallLimit::Methods(draw.some(&methods)));
        }
        if draw.chance(50) {
            limits.push(CallLimit::Value(U256::from(draw.one(&[0, 1, 1_000]))));
        }
        if draw.chance(25) {
            limits.push(CallLimit::Calls(draw.one(&[1, 2, 8])));
        }
        for token in [self.usdc, self.weth] {
            if draw.chance(40) {
                let amount = U256::from(draw.below(11));
                limits.push(CallLimit::TokenLoss { token, owner, amount });
            }
        }
        let shapes = self.shapes();
        if self.draw.chance(30) {
            limits.push(CallLimit::Shapes(self.draw.some(&shapes)));
        }
        limits
    }

    /// An action that no contract refuses by itself, through any sender.
    fn action(&mut self) -> Action {
        let (usdc, weth) = (self.world.usdc.clone(), self.world.weth.clone());
        let (permit2, router, now) = (self.permit2, self.router, self.now);
        let people = self.people;
        let draw = &mut self.draw;
        let amount = U256::from(draw.below(13));
        let value = U256::from(draw.one(&[0, 0, 1, 2, 1_000, 1_001]));
        let nothing = U256::ZERO;
        let (to, value, data, outflow) = match draw.below(8) {
            0 | 1 => {
                let call = Erc20::transferCall { to: draw.one(&people), value: amount };
                (self.usdc, nothing, call.abi_encode(), Some((usdc, amount)))
            }
            2 => {
                let call = Erc20::transferCall { to: draw.one(&people), value: amount };
                (self.weth, nothing, call.abi_encode(), Some((weth, amount)))
            }
            3 => {
                let call = Erc20::approveCall { spender: draw.one(&[permit2, router, people[0]]), value: amount };
                (draw.one(&[self.usdc, self.weth]), nothing, call.abi_encode(), None)
            }
            4 => {
                let token = draw.one(&[self.usdc, self.weth]);
                let call = Permit2::approveCall {
                    token,
                    spender: draw.one(&[router, people[0]]),
                    amount: amount.to(),
                    expiration: alloy::primitives::aliases::U48::from(now + 60),
                };
                (permit2, nothing, call.abi_encode(), None)
            }
            5 => (self.weth, value, Weth9::depositCall {}.abi_encode(), None),
            6 => {
                let call = UniversalRouter::execute_1Call {
                    commands: Bytes::new(),
                    inputs: Vec::new(),
                    deadline: U256::from(now + 60),
                };
                (router, nothing, call.abi_encode(), None)
            }
            _ => {
                let data = [1, 2, 3, 4, 5, 6];
                (draw.one(&people), value, data[..draw.below(7)].to_vec(), None)
            }
        };
        let leg =
            PlanLeg { purpose: LegPurpose::Main, to, value, data: data.into(), gas_limit: GAS, slots: Vec::new() };
        Action { leg, outflow }
    }

    fn grant(&mut self, delegate: Address, salt: u64) -> DelegationGrant {
        let limits = DelegationLimits::new(self.limits()).unwrap();
        let network = self.world.client.network();
        let (owner, bounds) = (self.owner.address(), DraftBounds::Waived);
        let (mut delegation, digest) =
            DelegationGrant::draft(network, owner, delegate, (&limits, bounds), U256::from(salt)).unwrap();
        delegation.signature = self.owner.sign_hash_sync(&digest).unwrap().as_bytes().into();
        DelegationGrant::read(network, delegation).unwrap()
    }

    /// Account of a granted session key. It is locked, because Multicall3 has no key: it prepares, and signs nothing.
    async fn account(&self, grant: &DelegationGrant) -> DelegatedAccount {
        let id = SessionKeyId::random();
        let limits = grant.limits().all();
        let end = limits.iter().find_map(|limit| match limit {
            CallLimit::Time { before, .. } => Some(*before),
            _ => None,
        });
        let max_calls = limits.iter().find_map(|limit| match limit {
            CallLimit::Calls(most) => Some(*most),
            _ => None,
        });
        let record = SessionKeyRecord {
            id,
            label: SafeText::clean("drawn", 40),
            address: grant.session(),
            owner: grant.owner(),
            chain_id: grant.chain_id(),
            manager: grant.manager(),
            delegation: grant.delegation().clone(),
            created_at: 1,
            expires_at: end.unwrap(),
            max_calls,
            uses: 0,
            last_used: None,
            state: SessionKeyState::Drafted,
        };
        let (key, signature) = (party_key(grant.owner()), grant.delegation().signature.clone());
        let written = self.world.store.write(move |transaction| {
            session_keys::insert(transaction, &record, &key)?;
            session_keys::grant(transaction, id, &signature, &key)
        });
        written.await.unwrap();
        let clock = Arc::new(Stopped(self.now));
        let keeper = SessionKeeper::new(id, "test", self.world.store.clone(), self.world.client.clone(), clock);
        DelegatedAccount::new(LocalAccount::locked(grant.session()), grant.clone(), keeper).unwrap()
    }

    /// Redeems each action on chain, past the policy: true where the contracts allow it.
    async fn on_chain(&self, delegate: Address, redemptions: Vec<Bytes>) -> Vec<bool> {
        let manager = self.world.contract(KnownContract::DelegationManager);
        let calls = redemptions.into_iter().map(|data| Multicall3::Call3 {
            target: manager,
            allowFailure: true,
            callData: data,
        });
        let call = Multicall3::aggregate3Call { calls: calls.collect() };
        let request = TransactionRequest::default().with_to(delegate).with_input(call.abi_encode());
        let now = self.now;
        let run = move |chain: &mut Chain| {
            let at = BlockOverrides { time: Some(now), ..BlockOverrides::default() };
            chain.call(&request, alloy::eips::BlockId::latest(), None, Some(&at))
        };
        let outcome = self.sandbox.chains()[0].devnet.run(run).await.unwrap().unwrap();
        assert!(outcome.gas_used < 45_000_000, "out of gas would look like a refusal: {}", outcome.gas_used);
        let results = Multicall3::aggregate3Call::abi_decode_returns(&outcome.output).unwrap();
        results.into_iter().map(|result| result.success).collect()
    }
}

/// Redemption of a delegation, as anyone with the session key could send it.
fn redemption(grant: &DelegationGrant, leg: &PlanLeg) -> Bytes {
    let call = DelegationManager::redeemDelegationsCall {
        permissionContexts: vec![vec![grant.for_call(leg.to, &leg.data)].abi_encode().into()],
        modes: vec![B256::ZERO],
        executionCallDatas: vec![[leg.to.as_slice(), &leg.value.to_be_bytes::<32>(), &leg.data].concat().into()],
    };
    call.abi_encode().into()
}

#[tokio::test(flavor = "multi_thread")]
async fn no_action_is_allowed_by_the_policy_of_a_session_key_and_refused_by_its_contracts() {
    let count = if std::env::var_os("BARDO_LONG").is_some() { ALL } else { SOME };
    let seed = std::env::var("PROPTEST_RNG_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(24);
    let mut fuzz = Fuzz::new(seed).await;
    let delegate = fuzz.world.contract(KnownContract::Multicall3);
    let fees = FeeBound { max_fee_per_gas: 20_000_000_000, max_priority_fee_per_gas: 1_000_000_000 };
    let context = PayloadContext { chain_id: fuzz.world.client.chain_id(), fees };
    let (mut seen, mut refusals, mut allowed) = (0, BTreeMap::<&str, usize>::new(), 0);
    while seen < count {
        let grant = fuzz.grant(delegate, seen as u64 + 1);
        let account = fuzz.account(&grant).await;
        let actions: Vec<Action> = (0..BATCH).map(|_| fuzz.action()).collect();
        let redemptions: Vec<Bytes> = actions.iter().map(|action| redemption(&grant, &action.leg)).collect();
        let on_chain = fuzz.on_chain(delegate, redemptions.clone()).await;
        let mut uses = 0;
        for ((action, data), accepted) in actions.iter().zip(&redemptions).zip(on_chain) {
            let mut proposal = fuzz.world.proposal(ProposalIntent::Approve, vec![action.leg.clone()]);
            proposal.account = grant.owner();
            let outflow = action.outflow.clone().map(|(token, amount)| Outflow { token, amount });
            proposal.outflows = outflow.into_iter().collect();
            // The count includes what this batch used so far; the row does not.
            let counted = account.check(uses + 1).map_err(|refusal| refusal.code());
            let prepared = account.prepare_payload(proposal, &context);
            let decided = match (counted, prepared) {
                (Err(code), _) => Err(code),
                (Ok(()), Err(error)) => Err(error.code()),
                (Ok(()), Ok(payload)) => {
                    assert_eq!(payload.legs()[0].data, *data, "what is sent is what was compared");
                    Ok(())
                }
            };
            let limits = grant.limits().all();
            assert_eq!(decided.is_ok(), accepted, "seed {seed}: {decided:?}, {:?} under {limits:?}", action.leg);
            match decided {
                Ok(()) => (allowed, uses) = (allowed + 1, uses + 1),
                Err(code) => *refusals.entry(code.as_str()).or_default() += 1,
            }
        }
        seen += actions.len();
    }
    eprintln!("{seen} actions, {allowed} allowed, refused: {refusals:?}");
    assert!(allowed > count / 50, "too few actions were allowed: {allowed}");
    for code in [ErrorCode::SessionKeyOutOfScope, ErrorCode::SessionKeyExpired, ErrorCode::SessionKeyUsedUp] {
        assert!(refusals.get(code.as_str()).is_some_and(|count| *count > 0), "{code}: {refusals:?}");
    }
}
