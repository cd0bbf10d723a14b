//! What is thrown at the decoders: each entry takes any bytes, must not panic, and checks what holds for all of them.
//!
//! `cargo fuzz run order` (nightly) drives them without end; `tests/sandbox/reactors` runs them over a bounded number
//! of inputs on the stable toolchain.

use alloy::eips::BlockId;
use alloy::primitives::{Address, B256, Bytes, Log, U256};
use bardo::base::units::BasisPoints;
use bardo::chain::devnet::{Chain, ChainConfig};
use bardo::chain::permit2::Permit2Domain;
use bardo::erc8004::RegistryEvent;
use bardo::erc8004::file::ReadRegistration;
use bardo::intents::{CrossChainIntent, OpenedIntent, read_relay};
use bardo::uniswap::claim::{self, ClaimRequest};
use bardo::uniswap::order::{OrderExpectation, OrderKind, ResolutionPoint, UniswapXOrder};
use bardo::uniswap::pool::FixedAmount;
use bardo::uniswap::quote::{ApprovalQuery, BuiltCall, OrderQuery};
use bardo::uniswap::router::{RouterExecution, RouterVersion};
use bardo::uniswap::trading;

/// An encoded order: the first byte chooses the kind, eight more the moment.
pub fn order(data: &[u8]) {
    let Some(([kind, moment @ ..], encoded)) = data.split_first_chunk::<9>() else { return };
    let kind = OrderKind::ALL[usize::from(*kind) % OrderKind::ALL.len()];
    let Ok(order) = UniswapXOrder::decode(kind, encoded) else { return };
    assert_eq!(*order.encode(), *encoded);
    let _ = order.permit().digest(&Permit2Domain { chain_id: 1, permit2: Address::ZERO });
    let _ = order.cosigner_digest(1);
    let info = order.info();
    let expected = OrderExpectation {
        chain_id: 1,
        now: 0,
        reactor: info.reactor,
        swapper: info.swapper,
        recipient: info.swapper,
        cosigner: order.cosigner().unwrap_or_default(),
    };
    let _ = (order.faults(&expected), order.cosigner_faults(1));
    let moment = u64::from_be_bytes(*moment);
    let at = ResolutionPoint {
        chain_id: 1,
        timestamp: moment,
        block: moment,
        base_fee: moment.into(),
        priority_fee: moment.into(),
        filler: Address::ZERO,
    };
    let Ok(resolved) = order.resolve(&at) else { return };
    let bounds = order.bounds();
    assert!(resolved.amount_in <= bounds.most_in);
    assert_eq!(resolved.outputs.len(), bounds.least_out.len());
    for (output, least) in resolved.outputs.iter().zip(&bounds.least_out) {
        assert!(output.amount >= least.amount);
        assert_eq!((output.token, output.recipient), (least.token, least.recipient));
    }
}

/// An encoded intent, or what a destination is told of one.
pub fn intent(data: &[u8]) {
    if let Ok(intent) = CrossChainIntent::decode(data) {
        assert_eq!(*intent.encode(), *data);
        assert_eq!(CrossChainIntent::read(&intent.order()).as_ref(), Ok(&intent));
        let _ = (intent.id(), intent.plain_hash(), intent.permit().struct_hash());
    }
    let _ = read_relay(data);
}

/// A log: up to four topics, each 32 bytes behind the count, then its data.
pub fn log(data: &[u8]) {
    let Some((count, mut rest)) = data.split_first() else { return };
    let mut topics = Vec::new();
    for _ in 0..count % 5 {
        let Some((topic, behind)) = rest.split_first_chunk::<32>() else { return };
        topics.push(B256::from(topic));
        rest = behind;
    }
    let Some(log) = Log::new(Address::ZERO, topics, Bytes::copy_from_slice(rest)) else { return };
    let _ = (OpenedIntent::decode(&log), RegistryEvent::decode(&log));
}

/// A state dump, compressed or not. What is loaded can be asked for, and the chain goes on after it.
pub fn dump(data: &[u8]) {
    let mut chain = Chain::new(ChainConfig::default()).unwrap();
    let before = chain.head().hash;
    if chain.load_dump(data).is_err() {
        assert_eq!((chain.head().hash, chain.number()), (before, 0));
        return;
    }
    for number in [chain.number(), chain.number().saturating_sub(1)] {
        let _ = chain.call(&Default::default(), BlockId::number(number), None, None);
    }
    let number = chain.number();
    assert_eq!(chain.mine().number(), number + 1);
    assert!(chain.dump(true).is_ok());
}

/// A chain's image.
pub fn image(data: &[u8]) {
    if let Ok(chain) = Chain::from_image(data) {
        let _ = chain.to_image();
    }
}

/// A registration file, or its address.
pub fn registration(data: &[u8]) {
    let _ = ReadRegistration::read(data);
    if let Ok(text) = std::str::from_utf8(data) {
        let _ = ReadRegistration::read_data_uri(text);
    }
}

/// What an order service or a filler network answers.
pub fn answer(data: &[u8]) {
    let Ok(value) = serde_json::from_slice::<serde_json::Value>(data) else { return };
    let hash = value["orders"][0]["orderId"].as_str().and_then(|id| id.parse().ok()).unwrap_or(B256::ZERO);
    if let Ok(Some(report)) = bardo::uniswap::service::parse_report(&value, hash, 31_337) {
        // Whatever it says, the order it shows is the one that was asked for.
        assert_eq!(report.cosigned.map(|order| order.hash()), Some(hash));
    }
    let _ = bardo::intents::service::bids(&value);
}

/// The question that the answers of [`quote`] are held against: addresses of one byte each, on chain 1.
pub fn asked() -> ClaimRequest {
    ClaimRequest {
        chain_id: 1,
        token_in: Address::repeat_byte(1),
        token_out: Address::repeat_byte(2),
        exact: FixedAmount::In(U256::from(1_000)),
        swapper: Address::repeat_byte(9),
    }
}

/// What a quote service answers, by the sidecar or the Trading API: quotes, permits, calls, approvals, orders, swaps.
pub fn quote(data: &[u8]) {
    let Ok(value) = serde_json::from_slice::<serde_json::Value>(data) else { return };
    let asked = asked();
    let (me, router) = (asked.swapper, Address::repeat_byte(8));
    if let Ok(claim) = claim::parse(&value["quote"], &asked) {
        // Whatever it names, it answers what was asked.
        assert_eq!(claim.amount_in, asked.exact.amount());
        assert!(claim.paths.iter().all(|path| path.pools.len() <= 3) && claim.paths.len() <= 8);
    }
    let permit2 = Address::repeat_byte(7);
    if let Ok(Some(permit)) = trading::permit(&value["permitData"], &asked, Some(permit2), &[router]) {
        assert_eq!((permit.details.token, permit.spender), (asked.token_in, router));
    }
    let nothing = RouterExecution { commands: Vec::new(), deadline: None };
    let own = BuiltCall {
        chain_id: 1,
        account: me,
        router,
        version: RouterVersion::V2_0,
        value: U256::ZERO,
        execution: &nothing,
        pools: &[],
    };
    let _ = trading::call(&value["swap"], &own);
    let asked_for = U256::from(5);
    let ask = ApprovalQuery { chain_id: 1, owner: me, token: asked.token_in, amount: asked_for, permit2 };
    if let Ok(bardo::uniswap::quote::SourceApproval::Needed { amount, .. }) = trading::approval(&value, &ask) {
        assert!(amount >= asked_for);
    }
    for kind in OrderKind::ALL {
        let ask = OrderQuery {
            kind,
            chain_id: 1,
            now: 0,
            swapper: me,
            reactor: Address::repeat_byte(6),
            cosigner: Address::repeat_byte(5),
            token_in: asked.token_in,
            token_out: asked.token_out,
            amount_in: asked.exact.amount(),
            slippage: BasisPoints::new(10_000).unwrap_or(BasisPoints::ZERO),
        };
        if let Ok(word) = trading::order(&value["quote"], &ask) {
            assert!(word.least_out <= word.start_out && !word.least_out.is_zero());
        }
    }
    let hash = B256::repeat_byte(4);
    if let Ok(swaps) = trading::swaps(&value, &[hash]) {
        assert!(swaps.len() <= 1);
    }
}
