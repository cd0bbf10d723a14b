//! A world in which an operator acts: chains, orders, holdings, allowances and tools.

use alloy::primitives::{Address, B256, U256};
use serde_json::json;

use super::super::Known;
use super::super::form::tests::tool;
use super::safe;
use crate::base::id::GolemId;
use crate::base::model::{CapabilityTier, Category, Phase};
use crate::base::units::TokenAmount;
use crate::console::state::feed::Feed;
use crate::console::state::model::*;
use crate::console::widgets::samples::{self, START, START_MILLIS};
use crate::fabric::DecayUnit;
use crate::runtime::handle::{
    AllowanceNow, AllowancesNow, ChainHoldings, Holding, PolicyNow, Ready, SilentToken, Snapshot, ToolInfo,
};

pub(super) struct World {
    pub page: Page,
    pub feed: Feed,
    pub snapshot: Snapshot,
    pub ready: Ready,
    pub now: u64,
    pub watch_only: bool,
}

impl World {
    pub fn known(&self) -> Known<'_> {
        Known {
            now_millis: self.now,
            machine_millis: self.now,
            motion: true,
            page: &self.page,
            feed: &self.feed,
            questions: &[],
            snapshot: Some(&self.snapshot),
            ready: Some(&self.ready),
            watch_only: self.watch_only,
            away: None,
        }
    }
}

pub(super) fn in_words(word: &str) -> World {
    let mut page = Page::default();
    page.apply(Update::Started(Network {
        name: safe("devnet"),
        money: Money::Play,
        chains: vec![
            ChainIdentity { name: safe("ethereum"), id: 31_337, interval_millis: Some(2000) },
            ChainIdentity { name: safe("base"), id: 31_338, interval_millis: Some(1000) },
        ],
        wallet: Address::repeat_byte(0xf3),
    }));
    let block = |number| BlockRow {
        number,
        timestamp: START - 2 * (1290 - number),
        base_fee_wei: 1_200_000_000,
        gas_used: 400_000,
        gas_limit: 30_000_000,
        transactions: 3,
    };
    for chain in 0..2 {
        page.apply(Update::Chain(Box::new(ChainSnapshot {
            chain,
            blocks: (1270..=1290).map(block).collect(),
            tokens: vec![
                TokenRow {
                    symbol: safe(word),
                    address: Address::repeat_byte(1),
                    price: FeedPrice::Live("3412.55".parse().unwrap()),
                },
                TokenRow { symbol: safe("DAI"), address: Address::repeat_byte(2), price: FeedPrice::None(safe(word)) },
            ],
            pools: vec![PoolRow {
                base: safe(word),
                quote: safe("USDC"),
                version: PoolVersion::V3,
                fee_pips: 500,
                address: Address::repeat_byte(9),
                price: Some("3412.5521".parse().unwrap()),
                feed_price: Some("3411.2".parse().unwrap()),
                holds: Some("12450000".parse().unwrap()),
            }],
            balances: Vec::new(),
            activity: Vec::new(),
        })));
    }
    let mut feed = Feed::default();
    let mut open = samples::order(DecayUnit::Seconds);
    open.token_in.symbol = safe(word);
    feed.orders.push_back((START_MILLIS, open));
    let mut past = samples::order(DecayUnit::Seconds);
    past.order_hash = B256::repeat_byte(0x77);
    past.status = crate::fabric::OrderStatus::Expired;
    feed.orders.push_back((START_MILLIS + 5, past));
    let mut intent = samples::intent();
    intent.destination_chain = safe(word);
    feed.intents.push_back((START_MILLIS + 9, intent));
    for at in 0..60 {
        feed.equity.push_back((START_MILLIS - 600_000 + at * 10_000, format!("253{at:02}.25").parse().unwrap()));
    }
    let allowance = |symbol: &str, seed, unlimited| AllowanceNow {
        chain: safe("ethereum"),
        chain_id: 31_337,
        symbol: safe(symbol),
        token: Address::repeat_byte(seed),
        spender: Address::repeat_byte(0xa3),
        label: (seed == 1).then(|| safe(word)),
        through_permit2: seed == 1,
        raw: U256::from(250_000_000u64),
        amount: TokenAmount::new(U256::from(250_000_000u64), 6).ok(),
        unlimited,
        expires_at: (seed == 1).then_some(START + 300),
    };
    let snapshot = Snapshot {
        golem_id: GolemId::operator(),
        at: START_MILLIS,
        account: Some(Address::repeat_byte(0xf3)),
        paper: false,
        phase: Phase::Cautious,
        policy: PolicyNow { name: safe("demo"), version: 3, hash: B256::ZERO },
        limits: None,
        fault: None,
        stop: None,
        holdings: vec![ChainHoldings {
            chain: safe("ethereum"),
            chain_id: 31_337,
            block: 1290,
            rows: vec![
                Holding {
                    symbol: safe(word),
                    amount: TokenAmount::new(U256::from(4_250_000_000_000_000_000u64), 18).unwrap(),
                    value: Some("14503.34".parse().unwrap()),
                },
                Holding {
                    symbol: safe("USDC"),
                    amount: TokenAmount::new(U256::from(6_120_000_000u64), 6).unwrap(),
                    value: None,
                },
            ],
        }],
        equity: Some("25310.42".parse().unwrap()),
        all_priced: false,
        allowances: AllowancesNow {
            rows: vec![allowance("WETH", 1, false), allowance("USDC", 2, true)],
            silent: vec![SilentToken {
                chain: safe("ethereum"),
                chain_id: 31_337,
                symbol: safe("DAI"),
                token: Address::repeat_byte(3),
            }],
        },
        grants: Vec::new(),
        running: 0,
    };
    let with = |name: &str, capability, category| ToolInfo { category, ..tool(name, capability) };
    let order_tool = |name: &str, field: &str| {
        let mut info = with(name, CapabilityTier::Write, Category::Trading);
        info.input_schema = json!({"properties": {field: {"type": "string"}, "chain": {"type": "string"}}, "required": [field, "chain"]});
        info
    };
    let mut quote = with("uniswap_get_quote", CapabilityTier::Read, Category::Trading);
    quote.description = safe(word);
    let ready = Ready {
        golem_id: GolemId::operator(),
        name: safe("Ada"),
        role: safe("trade-executor"),
        tools: vec![
            with("get_balances", CapabilityTier::Read, Category::Data),
            quote,
            with("uniswap_execute_swap", CapabilityTier::Write, Category::Trading),
            order_tool("uniswapx_cancel_order", "order_hash"),
            order_tool("intent_refund", "intent_id"),
        ],
        scenarios: Vec::new(),
        journal: None,
    };
    World { page, feed, snapshot, ready, now: START_MILLIS + 7_000, watch_only: false }
}

pub(super) fn world() -> World {
    in_words("WETH")
}
