//! Samples of what others settle, in every state: auction orders and bridge orders.

use super::*;

/// Auction order over `unit`, without a fill.
pub fn order(unit: DecayUnit) -> OrderUpdate {
    let (points, position, current, kind) = match unit {
        DecayUnit::Seconds => (
            vec![
                (START - 40, "1707.12".to_owned()),
                (START - 30, "1707.12".to_owned()),
                (START + 80, "1689.21".to_owned()),
            ],
            START + 7,
            "1700.62",
            "DUTCH_V2",
        ),
        DecayUnit::Blocks => (
            vec![(1280, "1707.12".to_owned()), (1284, "1701".to_owned()), (1290, "1689.21".to_owned())],
            1285,
            "1699.03",
            "DUTCH_V3",
        ),
        DecayUnit::Wei => {
            (vec![(0, "1689.21".to_owned()), (3_000_000_000, "1740".to_owned())], 1_000_000_000, "1706.14", "PRIORITY")
        }
    };
    let (start_amount, end_amount) = match unit {
        DecayUnit::Wei => ("1740", "1689.21"),
        DecayUnit::Seconds | DecayUnit::Blocks => ("1707.12", "1689.21"),
    };
    OrderUpdate {
        order_hash: B256::repeat_byte(0x4b),
        order_type: text(kind),
        chain_id: 31_337,
        status: OrderStatus::Open,
        token_in: asset("WETH", 1, 18),
        token_out: asset("USDC", 2, 6),
        amount_in: "0.5".to_owned(),
        quoted_out: "1706.28".to_owned(),
        start_amount: start_amount.to_owned(),
        end_amount: end_amount.to_owned(),
        curve: DecayCurve { unit, points },
        position,
        current_amount: current.to_owned(),
        exclusivity: (unit != DecayUnit::Wei).then(|| Exclusivity {
            filler: Address::repeat_byte(0x22),
            name: Some(text("filler-2")),
            until: if unit == DecayUnit::Seconds { START - 30 } else { 1286 },
        }),
        signed_at: Some(START_MILLIS - 18_000),
        best_bid: Some(FillerOffer {
            filler: Address::repeat_byte(0x22),
            name: Some(text("filler-2")),
            output_amount: "1698.80".to_owned(),
            estimated_seconds: 11,
            chosen: false,
        }),
        deadline: START + 77,
        fill: None,
        cancelled_by: None,
        money: text("in your wallet; 0.5 WETH reserved"),
        remark: SafeText::default(),
    }
}

/// Auction orders, one per state.
pub fn orders() -> Vec<(&'static str, OrderModel)> {
    let at = START_MILLIS - 40_000;
    let known = |change: &dyn Fn(&mut OrderUpdate)| {
        let mut update = order(DecayUnit::Seconds);
        change(&mut update);
        let mut model = OrderModel::known(at, &update);
        model.heard_at = START_MILLIS;
        model
    };
    let call = CallModel::asked(START_MILLIS, "uniswap_execute_swap", swap_params());
    let mut stale = known(&|_| {});
    stale.heard_at = START_MILLIS - 45_000;
    let mut blocked = OrderModel::asked(call.clone());
    for event in failed(ErrorCode::TokenLookalike, "\"USDС\" mixes Cyrillic and Latin") {
        blocked.fold(START_MILLIS + 40, &event);
    }
    let asked_of = json!({"order_hash": B256::repeat_byte(0x4b)});
    let mut looked = OrderModel::asked(CallModel::asked(START_MILLIS, "uniswap_get_uniswapx_order_status", asked_of));
    let told = json!({"order": order(DecayUnit::Seconds)});
    looked.fold(START_MILLIS + 11, &end(true, 11, CardKind::Order, Value::Null, told));
    // A swap that prefers an auction: its call contains the reasons.
    let mut by_swap =
        CallCard::Swap(Box::new(SwapModel::asked(START_MILLIS, "uniswap_execute_swap", swap_params(), &[] as &[&str])));
    by_swap.fold(START_MILLIS + 9, &EventKind::OrderUpdate(Box::new(order(DecayUnit::Wei))));
    let told = json!({
        "uniswapx": {
            "preferred": true, "used": true,
            "why": "fillers compete for it outside the public mempool, and the filler pays the gas",
        },
        "mev": [
            { "about": "slippage", "words": "the minimum output is signed in the order" },
            { "about": "visibility", "words": "the order goes to its service, not to a mempool" },
            { "about": "deadline", "words": "it cannot be settled later" },
            { "about": "size", "words": "it takes 1.40 % of the balance of a pool on its route; intel_assess_mev_risk \
                                         shows how to split it" },
        ],
    });
    by_swap.fold(START_MILLIS + 11, &end(true, 11, CardKind::Swap, Value::Null, told));
    let CallCard::Order(by_swap) = by_swap else { return Vec::new() };
    let mut of_blocks = OrderModel::known(at, &order(DecayUnit::Blocks));
    let changes = vec![text("120 s to 240 s for the auction: 2 of the last 3 alike lapsed")];
    of_blocks.fold(at, &EventKind::MemoryHits(MemoryHits { similar: 3, changes }));
    let mut of_fees = OrderModel::known(at, &order(DecayUnit::Wei));
    (of_blocks.heard_at, of_fees.heard_at) = (START_MILLIS, START_MILLIS);
    // One price above what the pools pay, and no curve.
    let limit = known(&|order| {
        for amount in [&mut order.start_amount, &mut order.end_amount, &mut order.current_amount] {
            "1745.50".clone_into(amount);
        }
        order.curve.points = vec![(START - 40, "1745.50".to_owned()), (START + 70, "1745.50".to_owned())];
        (order.exclusivity, order.best_bid) = (None, None);
    });
    let asked =
        json!({"token_in": "WETH", "token_out": "USDC", "amount": "0.5", "limit_price": "3491", "chain": "ethereum"});
    let limit_asked = OrderModel::asked(CallModel::asked(START_MILLIS, "uniswap_place_limit_order", asked));
    vec![
        ("limit order", limit),
        ("limit order asked", limit_asked),
        ("empty", OrderModel::default()),
        ("loading", OrderModel::asked(call)),
        ("pending", known(&|order| order.status = OrderStatus::Pending)),
        ("open", known(&|_| {})),
        ("blocks", of_blocks),
        ("priority", of_fees),
        ("stale", stale),
        ("looked at", looked),
        ("by a swap", *by_swap),
        (
            "filled",
            known(&|order| {
                order.status = OrderStatus::Filled;
                order.money = text("1,698.80 USDC came to your wallet");
                order.fill = Some(OrderFill {
                    tx: TxPlace { chain_id: 31_337, hash: B256::repeat_byte(0x7e), block: Some(1290) },
                    filler: Address::repeat_byte(0x33),
                    name: Some(text("filler-3")),
                    amount_in: "0.5".to_owned(),
                    amount_out: "1698.80".to_owned(),
                    position: START + 16,
                });
            }),
        ),
        (
            "expired",
            known(&|order| {
                order.status = OrderStatus::Expired;
                order.money = text("in your wallet; the order took nothing");
                order.remark = text("No filler wanted it at 1,689.21 USDC.");
            }),
        ),
        (
            "cancelled",
            known(&|order| {
                order.status = OrderStatus::Cancelled;
                order.money = text("in your wallet");
                order.cancelled_by =
                    Some(TxPlace { chain_id: 31_337, hash: B256::repeat_byte(0x11), block: Some(1291) });
            }),
        ),
        (
            "insufficient",
            known(&|order| {
                order.status = OrderStatus::InsufficientFunds;
                order.remark = text("The wallet holds 0.1 WETH; the order gives 0.5.");
            }),
        ),
        ("blocked", blocked),
        (
            "failed",
            known(&|order| {
                order.status = OrderStatus::Error;
                order.remark = text("The order service answers: InvalidCosignature");
            }),
        ),
    ]
}

/// Bridge order that is being filled.
pub fn intent() -> IntentUpdate {
    let bid = |seed: u8, name: &str, amount: &str, seconds, chosen| FillerOffer {
        filler: Address::repeat_byte(seed),
        name: Some(text(name)),
        output_amount: amount.to_owned(),
        estimated_seconds: seconds,
        chosen,
    };
    IntentUpdate {
        intent_id: B256::repeat_byte(0xb2),
        status: IntentStatus::Filling,
        source_chain: text("ethereum"),
        destination_chain: text("base"),
        signed_at: Some(START_MILLIS - 9_000),
        token_in: asset("USDC", 2, 6),
        token_out: asset("USDC", 3, 6),
        amount_in: "500".to_owned(),
        min_out: "498.5".to_owned(),
        estimated_output: "499.31".to_owned(),
        recipient: Address::repeat_byte(0xf3),
        settler: Address::repeat_byte(0x9f),
        bids: vec![
            bid(2, "filler-2", "499.31", 6, true),
            bid(1, "filler-1", "499.02", 4, false),
            bid(3, "filler-3", "498.77", 9, false),
        ],
        locked: Some(TxPlace { chain_id: 31_337, hash: B256::repeat_byte(0x51), block: Some(1290) }),
        delivered: None,
        filler: None,
        repaid: None,
        refunded: None,
        amount_out: None,
        fill_deadline: START + 3_507,
        refund_from: Some(START + 3_568),
        money: text("locked in settler 0x9f9F…9f9F on ethereum"),
        remark: SafeText::default(),
    }
}

/// Bridge orders, one per state.
pub fn bridges() -> Vec<(&'static str, BridgeModel)> {
    let known = |change: &dyn Fn(&mut IntentUpdate)| {
        let mut update = intent();
        change(&mut update);
        BridgeModel::known(START_MILLIS + 1_000, &update)
    };
    let place = |chain_id, seed, block| Some(TxPlace { chain_id, hash: B256::repeat_byte(seed), block: Some(block) });
    let mut stale = known(&|_| {});
    stale.heard_at = START_MILLIS - 90_000;
    let call = CallModel::asked(START_MILLIS, "intent_create", json!({"token_in": "USDC", "amount": "500"}));
    let mut blocked = BridgeModel::asked(call.clone());
    for event in failed(ErrorCode::CrossChainDestinationDegraded, "base has had no block for 40 s") {
        blocked.fold(START_MILLIS + 40, &event);
    }
    vec![
        ("empty", BridgeModel::default()),
        ("loading", BridgeModel::asked(call)),
        (
            "pending",
            known(&|intent| {
                intent.status = IntentStatus::Pending;
                intent.locked = None;
                intent.bids.clear();
                intent.money = text("in your wallet; 500 USDC reserved");
            }),
        ),
        ("filling", known(&|_| {})),
        ("stale", stale),
        (
            "filled",
            known(&|intent| {
                intent.status = IntentStatus::Filled;
                intent.delivered = place(31_338, 0x77, 1301);
                intent.repaid = place(31_337, 0x78, 1296);
                intent.amount_out = Some("499.31".to_owned());
                intent.money = text("499.31 USDC in your wallet on base");
            }),
        ),
        (
            "unseen",
            known(&|intent| {
                intent.status = IntentStatus::Filled;
                intent.repaid = place(31_337, 0x78, 1296);
                intent.money = text("paid to the filler on ethereum");
            }),
        ),
        (
            "expired",
            known(&|intent| {
                intent.status = IntentStatus::Expired;
                (intent.fill_deadline, intent.refund_from) = (START - 61, Some(START));
                intent.remark = text("base has had no block since 22:10:02");
            }),
        ),
        (
            "not yet",
            known(&|intent| {
                intent.status = IntentStatus::Expired;
                (intent.fill_deadline, intent.refund_from) = (START, Some(START + 61));
                intent.money = text("locked in settler 0x9f9F…9f9F on ethereum; intent_refund returns it");
            }),
        ),
        (
            "never locked",
            known(&|intent| {
                intent.status = IntentStatus::Expired;
                intent.locked = None;
                intent.money = text("nothing left the wallet; nobody locked the USDC");
            }),
        ),
        (
            "refunded",
            known(&|intent| {
                intent.status = IntentStatus::Refunded;
                intent.refunded = place(31_337, 0x79, 1402);
                intent.money = text("500 USDC back in your wallet on ethereum");
            }),
        ),
        ("failed", blocked),
    ]
}

/// Actions on positions, one per state and tool.
pub fn position_changes() -> Vec<(&'static str, PositionChangeModel)> {
    let asked = |tool: &str, params: Value| {
        let mut model = PositionChangeModel::asked(START_MILLIS, tool, params);
        model.call.signs = true;
        model
    };
    let change = |symbol: &str, change: &str, before: &str, after: &str| SimulatedChange {
        symbol: text(symbol),
        address: None,
        change: text(change),
        before: text(before),
        after: text(after),
        gas: false,
    };
    let offered = |changes: Vec<SimulatedChange>| {
        EventKind::PermitIssued(PermitIssued {
            permit_id: PermitId::random(),
            simulation_hash: B256::repeat_byte(0x51),
            expected_outcome: text("Close V3 position 42"),
            expires_at: START_MILLIS + 48_000,
            notify: false,
            changes,
            least_out: None,
            leaves_usd: None,
            is_order: false,
        })
    };
    let verified = |matched| {
        EventKind::ToolVerified(ToolVerified {
            expected_outcome: text("Close V3 position 42"),
            actual_outcome: text("Close V3 position 42"),
            ground_truth_source: "transaction_receipt + balance_diff".into(),
            matched,
            unfilled: false,
        })
    };
    let ended = |summary: Value| {
        EventKind::ToolEnd(ToolEnd {
            success: true,
            state: None,
            duration_ms: 2_300,
            result_summary: summary,
            card: None,
        })
    };
    let folded = |mut model: PositionChangeModel, events: Vec<EventKind>| {
        for (at, event) in (1..).zip(events) {
            model.fold(START_MILLIS + at * 10, &event);
        }
        model
    };
    let close = || asked("close_position", json!({"position_id": "42", "chain": "ethereum"}));
    let out = || {
        vec![change("WETH", "+0.250220293", "4.25", "4.500220293"), change("USDC", "+853.8714", "5000", "5853.8714")]
    };
    let hash = B256::repeat_byte(0x8c).to_string();
    let closed = || ended(json!({"tx_hash": hash, "amount0": "0.250220293", "amount1": "853.8714"}));
    let included = || tx(1, 1, TxState::Confirmed, Some(812));
    let done = |tool: &str, params: Value, moves: Vec<SimulatedChange>, summary: Value| {
        folded(asked(tool, params), vec![offered(moves), included(), verified(true), ended(summary)])
    };
    let position = || json!({"position_id": "42", "chain": "ethereum"});
    let into = vec![change("WETH", "−0.1", "4.25", "4.15"), change("USDC", "−341.255", "5000", "4658.745")];
    let amounts = || json!({"tx_hash": hash, "position_id": "42", "amount0": "0.1", "amount1": "341.255"});
    let shares = json!({"tx_hash": hash, "amount": "500", "shares": "476.190476"});
    vec![
        ("empty", PositionChangeModel::default()),
        ("loading", close()),
        ("simulated", folded(close(), vec![offered(out())])),
        ("on its way", folded(close(), vec![offered(out()), tx(1, 1, TxState::Sent, None)])),
        ("closed", folded(close(), vec![offered(out()), included(), verified(true), closed()])),
        ("disagrees", folded(close(), vec![offered(out()), included(), verified(false), closed()])),
        (
            "collected",
            done(
                "collect_fees",
                position(),
                out(),
                json!({"tx_hash": hash, "amount0": "0.00021", "amount1": "0.7314"}),
            ),
        ),
        ("compounded", done("compound_fees", position(), into.clone(), amounts())),
        (
            "removed",
            done(
                "remove_liquidity",
                json!({"position_id": "42", "share_pct": "50", "chain": "ethereum"}),
                out(),
                amounts(),
            ),
        ),
        (
            "opened",
            done(
                "add_liquidity",
                json!({"token_a": "WETH", "token_b": "USDC", "chain": "ethereum"}),
                into.clone(),
                amounts(),
            ),
        ),
        ("added", done("increase_liquidity", position(), into, amounts())),
        (
            "moved",
            done(
                "rebalance_position",
                position(),
                out(),
                json!({"state": "done", "old_position_id": "42", "position_id": "57"}),
            ),
        ),
        (
            "deposited",
            done(
                "vault_deposit",
                json!({"amount": "500", "chain": "ethereum"}),
                vec![change("USDC", "−500", "5000", "4500")],
                shares.clone(),
            ),
        ),
        (
            "redeemed",
            done(
                "vault_withdraw",
                json!({"shares": "max", "chain": "ethereum"}),
                vec![change("USDC", "+499.999999", "4500", "4999.999999")],
                shares,
            ),
        ),
    ]
}

/// Settled claims and cancellations in asynchronous vaults, and a manager's actions.
pub fn vault_changes() -> Vec<(&'static str, PositionChangeModel)> {
    let vault = "0x5FbDB2315678afecb367f032d93F642f64180aa3";
    let change = |symbol: &str, change: &str, before: &str, after: &str| SimulatedChange {
        symbol: text(symbol),
        address: None,
        change: text(change),
        before: text(before),
        after: text(after),
        gas: false,
    };
    let done = |tool: &str, params: Value, changes: Vec<SimulatedChange>, summary: Value| {
        let mut model = PositionChangeModel::asked(START_MILLIS, tool, params);
        model.call.signs = true;
        let offered = EventKind::PermitIssued(PermitIssued {
            permit_id: PermitId::random(),
            simulation_hash: B256::repeat_byte(0x51),
            expected_outcome: text("Settle the vault"),
            expires_at: START_MILLIS + 48_000,
            notify: false,
            changes,
            least_out: None,
            leaves_usd: None,
            is_order: false,
        });
        let verified = EventKind::ToolVerified(ToolVerified {
            expected_outcome: text("Settle the vault"),
            actual_outcome: text("Settle the vault"),
            ground_truth_source: "transaction_receipt + balance_diff".into(),
            matched: true,
            unfilled: false,
        });
        let ended = EventKind::ToolEnd(ToolEnd {
            success: true,
            state: None,
            duration_ms: 2_300,
            result_summary: summary,
            card: None,
        });
        let events = [offered, tx(1, 1, TxState::Confirmed, Some(812)), verified, ended];
        for (at, event) in (1..).zip(events) {
            model.fold(START_MILLIS + at * 10, &event);
        }
        model
    };
    let of = |more: Value| {
        let mut params = json!({"vault_address": vault, "chain": "ethereum"});
        if let (Some(params), Some(more)) = (params.as_object_mut(), more.as_object()) {
            params.extend(more.iter().map(|(name, value)| (name.clone(), value.clone())));
        }
        params
    };
    let comes = || vec![change("USDC", "+1000", "4500", "5500")];
    let figures = |comes: &str, leaves: &str| json!({"total_assets": "12000.5", "deposits_settled": comes, "withdrawals_settled": leaves});
    let claim = json!({"amount": "510", "shares": "500"});
    let shares = || vec![change("mUSDC", "+500", "0", "500")];
    vec![
        ("claimed", done("vault_claim", of(json!({"request": "deposit"})), shares(), claim)),
        ("cancelled", done("vault_cancel_request", of(json!({})), comes(), json!({"amount": "1000"}))),
        (
            "vault_deployed",
            done("vault_deploy", json!({"token": "USDC", "name": "My vault", "symbol": "mV"}), vec![], of(json!({}))),
        ),
        ("vault_settled", done("vault_settle", of(json!({})), comes(), figures("1000", "0"))),
        ("vault_valued", done("vault_settle", of(json!({"new_total_assets": "12000.5"})), vec![], figures("0", "250"))),
        (
            "vault_invested",
            done(
                "vault_rebalance",
                of(json!({"direction": "invest", "amount": "600"})),
                vec![change("USDC", "−600", "5500", "4900")],
                json!({"amount": "600"}),
            ),
        ),
        ("vault_harvested", done("vault_harvest", of(json!({})), vec![], json!({"harvested": "0.013521"}))),
        ("vault_paused", done("vault_pause", of(json!({})), vec![], json!({}))),
        ("vault_resumed", done("vault_resume", of(json!({})), vec![], json!({}))),
        ("vault_capped", done("vault_set_cap", of(json!({"cap": "50000"})), vec![], json!({}))),
        ("vault_ended", done("vault_teardown", of(json!({})), vec![], figures("0", "12000.5"))),
    ]
}
