//! Replays `almanak_policy.json`, decisions of Almanak's policy engine, through our policy with the same values.
//!
//! An action that theirs refuses, ours refuses by the same rule. [`STRICTER`] and [`OTHERWISE`] name the cases in which
//! ours differs on purpose, with the reason. A case that is not in these tables may differ only by a rule that they name.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use alloy::primitives::{Address, B256, Bytes, U256};
use alloy::sol_types::SolCall as _;
use bardo::aave::call::LendingCall;
use bardo::aave::position::AccountSums;
use bardo::abi::aave::AavePool;
use bardo::abi::erc7683::AcrossOrderData;
use bardo::abi::uniswap_v3::NonfungiblePositionManager;
use bardo::abi::universal_router::UniversalRouter;
use bardo::base::id::{CallId, GolemId};
use bardo::base::model::{ActionClass, Phase};
use bardo::base::text::SafeText;
use bardo::base::units::{BasisPoints, Rounding, TokenAmount, Usd};
use bardo::chain::fork::{PinnedBlock, Simulation, StateChanges};
use bardo::chain::network::{KnownContract, Network, named, resolve};
use bardo::chain::token::{TokenId, TokenInfo};
use bardo::intents::CrossChainIntent;
use bardo::runtime::data::ALL_MIGRATIONS;
use bardo::safety::account::AccountKind;
use bardo::safety::check_inputs::Portfolio;
use bardo::safety::ledger::{self, LedgerCaps, MicroUsd, Originator, ReservationOutcome, ReservationRequest};
use bardo::safety::lending_calls::LendingEffects;
use bardo::safety::operator_policy::OperatorPolicyEngine;
use bardo::safety::policy::{ChainId, PolicyKeeper, parse};
use bardo::safety::policy_engine::PolicyEngine as _;
use bardo::safety::proposal::{
    BridgeArrival, Inflow, LegPurpose, Outflow, PlanLeg, Proposal, ProposalIntent, SignedOrder,
};
use bardo::safety::simulate::SimulatedEffects;
use bardo::safety::stop::StopFile;
use bardo::safety::typed::TypedMessage;
use bardo::safety::value::{ActionValues, UnknownValue, ValuedAmount};
use bardo::safety::{CheckInputs, FeeBound, PayloadLeg, PayloadOrder, PayloadParts, SigningPayload};
use bardo::store::{Store, StoreConfig};
use bardo_testkit::harness::TOOL;
use serde_json::Value;

use super::{each, list, text};

/// Their tools with a counterpart among ours.
const TOOLS: &[(&str, &str)] = &[
    ("swap_tokens", "uniswap_execute_swap"),
    ("bridge_tokens", "uniswap_submit_cross_chain_intent"),
    ("get_price", "get_token_price"),
    ("open_lp_position", "add_liquidity"),
    ("close_lp_position", "close_position"),
    ("supply_lending", "lending_supply"),
    ("withdraw_lending", "lending_withdraw"),
    ("borrow_lending", "lending_borrow"),
    ("repay_lending", "lending_repay"),
];

/// Their tool that names another action's tool by an intent, and ours that does it.
const PLANNED: &str = "compile_intent";
/// Their tool that does what was compiled before.
const EXECUTED: &str = "execute_compiled_bundle";
/// Words of their intents, and of the tool that an intent stands for. Our dialect reads no other.
const SWAP_WORDS: &[(&str, &str)] =
    &[("from_token", "token_in"), ("to_token", "token_out"), ("amount", "amount"), ("protocol", "protocol")];

/// Their kinds of violation, and the rule that refuses the same here.
const KINDS: &[(&str, &str)] = &[
    ("single_trade_limit", "max_single_trade_usd"),
    ("daily_spend_limit", "max_daily_spend_usd"),
    ("position_size_limit", "max_position_size_usd"),
    ("tool_not_allowed", "allowed_tools"),
    ("chain_not_allowed", "allowed_chains"),
    ("protocol_not_allowed", "allowed_protocols"),
    ("token_not_allowed", "allowed_tokens"),
    ("intent_type_not_allowed", "allowed_intent_types"),
    ("execution_wallet_not_allowed", "allowed_execution_wallets"),
    ("trade_rate_limit", "max_trades_per_hour"),
    ("tool_rate_limit", "max_tool_calls_per_minute"),
    ("stop_loss", "stop_loss_pct"),
    ("circuit_breaker", "max_consecutive_failures"),
    ("cooldown", "cooldown_seconds"),
    ("unmeasured_value", "price"),
    ("rebalance_gate", "require_rebalance_check"),
];

/// Cases that theirs allows and ours refuses: id, our rule, reason.
const STRICTER: &[(&str, &str, &str)] = &[
    ("daily_after_reset_op", "max_daily_spend_usd", "spending leaves the window with time alone; nothing resets it"),
    ("chain_alias_bnb_bsc", UNKNOWN_CHAIN, "no network of that name is in the address book"),
    ("chain_none_policy", UNKNOWN_CHAIN, "a chain that is not in the address book cannot be acted on"),
    ("intent_not_on_action_tool", "allowed_intent_types", "every action has a kind, which the list binds"),
    ("stop_zero_skipped", "stop_loss_pct", "a portfolio of nothing has lost everything"),
    ("price_missing_out_leg_ok", "allowed_tokens", "both tokens must be listed"),
    ("amount_negative", INVALID, "an amount is not negative"),
    ("intent_in", INVALID, "an intent without tokens and amount names nothing to do"),
    ("amount_usd_unseen", INVALID, "a parameter that no tool has is refused, not ignored"),
    ("approval_hidden_by_bundle", NO_BUNDLE, "a bundle is a previewed action with its value; an unknown one is none"),
];

/// Cases that theirs refuses and ours allows, with the reason.
const OTHERWISE: &[(&str, &str)] = &[
    ("chain_id_string", "an id is a name of its chain, and that chain is allowed"),
    ("stop_blocks_close", "closing one's own position is an exit, and no loss may keep anybody from leaving"),
    (
        "rebalance_missing",
        "opening a position moves none: rebalance_position computes the benefit itself, and needs no call before",
    ),
];

/// Reason of ours for a chain that is not known.
const UNKNOWN_CHAIN: &str = "unknown chain";
/// Reason of ours for arguments that no tool accepts.
const INVALID: &str = "invalid arguments";
/// Reason of ours for a bundle that the session did not compile.
const NO_BUNDLE: &str = "unknown bundle";
/// Account that acts in cases without one.
const ACCOUNT: Address = Address::repeat_byte(0x11);

/// Decision of our policy about a case.
struct Decision {
    /// Rules that refuse the action; empty if it is allowed.
    rules: BTreeSet<String>,
    /// True if the operator is asked because of the action's dollars.
    asks_for_value: bool,
}

impl Decision {
    fn refused(rule: &str) -> Self {
        Self { rules: BTreeSet::from([rule.to_owned()]), asks_for_value: false }
    }
}

/// Replays every case; returns their number.
pub fn run(file: &Value) -> usize {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let cases = list(file, "vectors");
    let start = file["t0_unix"].as_f64().unwrap();
    let mut replayed = 0;
    each(cases, |case| {
        replayed += 1;
        compare(case, &runtime.block_on(decide(case, millis(start))));
    });
    assert_eq!(replayed, cases.len(), "every case is replayed");
    println!("almanak_policy.json: {replayed} replayed");
    replayed
}

/// Fails unless both decide alike, or one of the tables explains the difference.
fn compare(case: &Value, ours: &Decision) {
    let (id, theirs) = (text(&case["id"]), &case["expect"]);
    let allowed = theirs["allowed"].as_bool().unwrap();
    let listed = STRICTER.iter().any(|(case, _, _)| *case == id) || OTHERWISE.iter().any(|(case, _)| *case == id);
    match (allowed, ours.rules.is_empty()) {
        (true, true) => {
            assert!(!listed, "both allow it: remove the case from the table of differences");
            let asks = theirs["requires_approval"].as_bool().unwrap();
            assert!(!asks || ours.asks_for_value, "theirs asks the operator and ours does not");
        }
        (true, false) => {
            let explained = |rule: &String| match STRICTER.iter().any(|(case, _, _)| *case == id) {
                true => STRICTER.iter().any(|(case, known, _)| (*case, *known) == (id, rule.as_str())),
                false => STRICTER.iter().any(|(_, known, _)| known == rule),
            };
            assert!(ours.rules.iter().all(explained), "theirs allows it, ours refuses by {:?}", ours.rules);
        }
        (false, true) => assert!(OTHERWISE.iter().any(|(case, _)| *case == id), "theirs refuses it, ours does not"),
        (false, false) => {
            assert!(!listed, "both refuse it: remove the case from the table of differences");
            if [UNKNOWN_CHAIN, INVALID, NO_BUNDLE].iter().any(|reason| ours.rules.contains(*reason)) {
                return;
            }
            for kind in list(theirs, "kinds") {
                let rule = KINDS.iter().find(|(known, _)| *known == text(kind));
                let rule = rule.unwrap_or_else(|| panic!("no rule of ours stands for {kind}")).1;
                assert!(ours.rules.contains(rule), "theirs refuses by {kind}, ours by {:?}", ours.rules);
            }
        }
    }
}

/// The case of the action that an intent stands for; `None` if our dialect does not read its parameters.
fn intended(case: &Value) -> Option<Value> {
    let arguments = &case["call"]["arguments"];
    assert_eq!(arguments["intent_type"], "swap", "the only intent of the file");
    let mut translated = serde_json::Map::new();
    for (name, value) in arguments["params"].as_object().unwrap() {
        let (_, ours) = SWAP_WORDS.iter().find(|(theirs, _)| theirs == name)?;
        translated.insert((*ours).to_owned(), value.clone());
    }
    if ["token_in", "token_out", "amount"].iter().any(|name| !translated.contains_key(*name)) {
        return None;
    }
    translated.insert("chain".to_owned(), arguments["chain"].clone());
    let mut case = case.clone();
    case["call"]["tool"] = Value::from("swap_tokens");
    case["call"]["arguments"] = Value::Object(translated);
    Some(case)
}

/// Decides a case by our policy. `start` is its time zero, in milliseconds since the Unix epoch.
async fn decide(case: &Value, start: u64) -> Decision {
    let translated;
    let case = match text(&case["call"]["tool"]) {
        PLANNED => match intended(case) {
            Some(swap) => {
                translated = swap;
                &translated
            }
            None => return Decision::refused(INVALID),
        },
        EXECUTED => return Decision::refused(NO_BUNDLE),
        _ => case,
    };
    let folder = tempfile::tempdir().unwrap();
    let Some(rules) = rules(&case["policy"]) else { return Decision::refused(UNKNOWN_CHAIN) };
    let policy = parse(&rules, Path::new("policy.toml")).unwrap_or_else(|error| panic!("{rules}: {error}"));
    let most_failures = policy.rules().max_consecutive_failures.0;
    let store = Store::open(StoreConfig::at(folder.path().join("ledger.db")), ALL_MIGRATIONS).unwrap();
    let keeper = Arc::new(PolicyKeeper::fixed(policy));
    let engine =
        OperatorPolicyEngine::new(keeper, StopFile::in_folder(folder.path()), store.clone(), named().iter().cloned());

    let (call, arguments) = (&case["call"], &case["call"]["arguments"]);
    let now = start + millis(call["at"].as_f64().unwrap());
    let chain = resolve(text(&arguments[if arguments["chain"].is_null() { "from_chain" } else { "chain" }]), named());
    let Ok(network) = chain else { return Decision::refused(UNKNOWN_CHAIN) };
    let mut equity = Usd::ZERO;
    for earlier in list(case, "history") {
        past(earlier, start, &engine, &store, network, most_failures, &mut equity).await;
    }

    let tool = TOOLS.iter().find(|(theirs, _)| *theirs == text(&call["tool"]));
    let tool = tool.unwrap_or_else(|| panic!("no tool of ours stands for {}", call["tool"])).1;
    let counted = engine.take_call(now, &GolemId::operator()).await;
    let mut rules = BTreeSet::new();
    if counted.is_err() {
        rules.insert("max_tool_calls_per_minute".to_owned());
    }
    let in_force = engine.policy();
    let in_force = in_force.rules();
    if tool == "get_token_price" {
        if !in_force.allowed_chains.allows(&ChainId(network.chain_id), false) {
            rules.insert("allowed_chains".to_owned());
        }
        if !in_force.allowed_tools.allows_by(false, |listed| listed.iter().any(|one| one.0 == tool)) {
            rules.insert("allowed_tools".to_owned());
        }
        return Decision { rules, asks_for_value: false };
    }
    let own = if tool.starts_with("lending_") { "aave" } else { "uniswap" };
    if arguments["protocol"].as_str().is_some_and(|protocol| !protocol.starts_with(own)) {
        // Our tools trade on Uniswap and lend in Aave alone.
        return Decision::refused("allowed_protocols");
    }
    let Some((payload, values)) = action(case, tool, network) else { return Decision::refused(INVALID) };
    let inputs = inputs(values, network, &payload, equity, now);
    let refused = engine.check(&payload, &inputs);
    rules.extend(refused.iter().flat_map(|verdict| verdict.violations()).map(|one| one.rule.to_string()));
    let need = engine.consent(&payload, &inputs);
    let asks_for_value =
        need.reasons().iter().any(|one| matches!(one, bardo::safety::approval::ApprovalReason::Above { .. }));
    Decision { rules, asks_for_value }
}

/// Writes the fields of a case's policy as a policy file of ours; `None` if it names a chain that is not known.
fn rules(theirs: &Value) -> Option<String> {
    let mut lines = vec!["preset = \"defi-trading\"".to_owned()];
    for (field, value) in theirs.as_object().unwrap() {
        let items = |rename: &dyn Fn(&str) -> Vec<String>| match value.as_array() {
            Some(items) => {
                let items: Vec<String> = items.iter().flat_map(|item| rename(text(item))).collect();
                format!("{items:?}")
            }
            None => "\"all\"".to_owned(),
        };
        let shown = match field.as_str() {
            "allowed_tools" => items(&|name| {
                TOOLS.iter().filter(|(theirs, _)| *theirs == name).map(|(_, ours)| (*ours).to_owned()).collect()
            }),
            "allowed_chains" => {
                let all = value.as_array().into_iter().flatten();
                if all.map(text).any(|name| resolve(name, named()).is_err()) {
                    return None;
                }
                items(&|name| vec![name.to_owned()])
            }
            "allowed_protocols" => items(&|name| match name.strip_prefix("uniswap") {
                Some(_) => vec!["uniswap".to_owned()],
                None => vec![name.replace('_', "-")],
            }),
            // Ours names tokens by chain and address: every listed token of that symbol.
            "allowed_tokens" => items(&|symbol| {
                let of = |network: &Network| {
                    let all = network.book.tokens().iter().filter(|token| token.symbol.eq_ignore_ascii_case(symbol));
                    all.map(|token| format!("{}:{}", network.name, token.address)).collect::<Vec<_>>()
                };
                named().iter().flat_map(of).collect()
            }),
            "allowed_intent_types" => items(&|name| match name {
                "SWAP" => vec!["swap".to_owned()],
                "BRIDGE" => vec!["bridge".to_owned()],
                "LP_OPEN" | "LP_CLOSE" => vec!["liquidity".to_owned()],
                "SUPPLY" | "WITHDRAW" | "BORROW" | "REPAY" => vec!["lending".to_owned()],
                other => vec![other.to_lowercase().replace('_', "-")],
            }),
            "allowed_execution_wallets" => items(&|wallet| vec![wallet.parse::<Address>().unwrap().to_checksum(None)]),
            _ => value.to_string(),
        };
        lines.push(format!("{field} = {shown}"));
    }
    Some(lines.join("\n"))
}

/// Repeats one entry of a case's history on our ledger.
async fn past(
    entry: &Value,
    start: u64,
    engine: &OperatorPolicyEngine,
    store: &Store,
    network: &Network,
    most_failures: u32,
    equity: &mut Usd,
) {
    let at = start + millis(entry["at"].as_f64().unwrap());
    let party = Originator {
        call_id: CallId::new(at),
        golem_id: GolemId::operator(),
        chain_id: network.chain_id,
        account: ACCOUNT,
    };
    match text(&entry["op"]) {
        "record_trade" => {
            let spent = MicroUsd::of(text(&entry["usd"]).parse().unwrap(), Rounding::Up).unwrap();
            let success = entry["success"].as_bool().unwrap();
            let outcome = match success {
                true => ReservationOutcome::Done { spent },
                false => ReservationOutcome::Reverted { gas: MicroUsd::ZERO },
            };
            let request = trade(spent);
            let write = store.write(move |transaction| {
                let made = ledger::reserve(transaction, at, &no_caps(), &party, &request)?;
                ledger::settle(transaction, at, made, outcome, most_failures)
            });
            write.await.unwrap();
        }
        "record_tool_call" => {
            for _ in 0..entry["n"].as_u64().unwrap() {
                engine.take_call(at, &GolemId::operator()).await.unwrap();
            }
        }
        "portfolio" => {
            *equity = text(&entry["usd"]).parse().unwrap();
            let value = MicroUsd::of(*equity, Rounding::Down).unwrap();
            store.write(move |transaction| ledger::observe(transaction, at, &party, value)).await.unwrap();
        }
        // Windows here slide, so that there is nothing to reset.
        "reset_daily" => {}
        "set_rebalance_approved" => {}
        other => panic!("no code repeats `{other}`"),
    }
}

fn trade(spend: MicroUsd) -> ReservationRequest {
    ReservationRequest {
        spend,
        gas: MicroUsd::ZERO,
        tokens: Default::default(),
        trade: true,
        only_revokes: false,
        by_operator: true,
        exit: false,
        sold: Default::default(),
        asked: false,
        traded: spend,
        exempt: false,
        equity: MicroUsd::ZERO,
    }
}

/// Limits that nothing reaches, for what theirs recorded without asking its policy.
fn no_caps() -> LedgerCaps {
    LedgerCaps {
        spend: vec![],
        tokens: Default::default(),
        trades_per_hour: u32::MAX,
        revocations_per_hour: u32::MAX,
        revocations_per_day: None,
        calls_per_minute: u32::MAX,
        cooldown: 0,
        failures: u32::MAX,
        cool_off: 0,
        stop_loss: BasisPoints::constant::<10_000>(),
    }
}

/// Describes a token that the arguments name by symbol or address; one that no list has is at an address of its own.
fn token(network: &Network, asked: &str) -> TokenInfo {
    let is_it = |symbol: &str, address: Address| {
        symbol.eq_ignore_ascii_case(asked) || asked.parse::<Address>().is_ok_and(|asked| asked == address)
    };
    let found = network.book.tokens().iter().find(|token| is_it(&token.symbol, token.address));
    let (address, decimals) = found.map_or((Address::repeat_byte(0x99), 18), |token| (token.address, token.decimals));
    let symbol = SafeText::clean(found.map_or(asked, |token| &token.symbol), 20);
    TokenInfo { id: TokenId::Erc20(address), name: symbol.clone(), symbol, decimals, listed: found.is_some() }
}

/// Returns the action of a case as it would be signed, with its dollar value; `None` if its amount is not an amount.
fn action(
    case: &Value,
    tool: &'static str,
    network: &Network,
) -> Option<(SigningPayload, Result<ActionValues, UnknownValue>)> {
    let arguments = &case["call"]["arguments"];
    match tool {
        "add_liquidity" => return deposit(case, network),
        "close_position" => return Some(withdrawal(case, network, ProposalIntent::Liquidity)),
        "lending_withdraw" => return Some(withdrawal(case, network, ProposalIntent::Lending)),
        _ => {}
    }
    let bridge = tool == "uniswap_submit_cross_chain_intent";
    let asked = text(&arguments[if bridge { "token" } else { "token_in" }]);
    let given = token(network, asked);
    let amount = TokenAmount::parse(text(&arguments["amount"]), given.decimals).ok()?;
    let prices = &case["prices"];
    let values = match prices[asked].as_str().or_else(|| prices[given.symbol.as_str()].as_str()) {
        Some(price) => {
            let usd = Usd::value_of(amount, price.parse().unwrap(), Rounding::Up).unwrap();
            let outflow = ValuedAmount { token: given.clone(), amount: amount.raw(), usd };
            Ok(ActionValues { outflows: vec![outflow], spent: usd, ..ActionValues::default() })
        }
        None => Err(UnknownValue::because(format_args!("no price of {}", given.symbol))),
    };
    let wallets = [&arguments["execution_wallet"], &case["default_wallet"]];
    let account = wallets.iter().find_map(|wallet| wallet.as_str()?.parse::<Address>().ok()).unwrap_or(ACCOUNT);
    let router = network.book.contract(KnownContract::UniversalRouter).unwrap_or(Address::repeat_byte(0x22));
    let data: Bytes = UniversalRouter::execute_1Call::SELECTOR.into();
    let leg = PlanLeg {
        purpose: LegPurpose::Main,
        to: router,
        value: U256::ZERO,
        data: data.clone(),
        gas_limit: 200_000,
        slots: vec![],
    };
    let (legs, inflows, order) = if bridge {
        let arrival = resolve(text(&arguments["to_chain"]), named()).ok()?;
        let there = token(arrival, text(&arguments["token"]));
        (vec![], vec![], Some(bridge_order(network, arrival, account, &given, there, amount.raw())))
    } else {
        let wanted = token(network, text(&arguments["token_out"]));
        let one = U256::from(1);
        (vec![leg], vec![Inflow { token: wanted, at_least: one, expected: one, recipient: account }], None)
    };
    let payload_legs = legs.iter().map(|leg| PayloadLeg {
        purpose: leg.purpose,
        from: account,
        to: leg.to,
        value: leg.value,
        data: leg.data.clone(),
        gas_limit: leg.gas_limit,
        slots: vec![],
    });
    let payload_legs = payload_legs.collect();
    let message = order.as_ref().map(|order: &SignedOrder| order.message.clone());
    let mut meta = TOOL;
    meta.name = tool;
    meta.action_class = ActionClass::NewPosition;
    let proposal = Proposal {
        chain_id: network.chain_id,
        tool: meta,
        call_id: CallId::new(1),
        golem_id: GolemId::operator(),
        account,
        intent: if bridge { ProposalIntent::Bridge } else { ProposalIntent::Swap },
        legs,
        outflows: vec![Outflow { token: given, amount: amount.raw() }],
        inflows,
        allowances: vec![],
        trade: None,
        recipients: vec![account],
        order: order.map(Box::new),
        files: Vec::new(),
        replaces: None,
        arrival: None,
        expected_outcome: SafeText::default(),
    };
    let parts = PayloadParts {
        proposal,
        kind: AccountKind::LocalKey,
        signer: account,
        payer: account,
        legs: payload_legs,
        order: message.map(|message| PayloadOrder { message, signer: account }),
        fees: FeeBound { max_fee_per_gas: 1_000_000_000, max_priority_fee_per_gas: 1 },
    };
    Some((SigningPayload::new(parts).unwrap(), values))
}

/// Outflow of the wallet, with its value by the prices of the case; `None` if an amount is not an amount.
fn valued(case: &Value, given: &TokenInfo, asked: &str, amount: &Value) -> Option<Result<ValuedAmount, UnknownValue>> {
    let amount = TokenAmount::parse(text(amount), given.decimals).ok()?;
    let prices = &case["prices"];
    Some(match prices[asked].as_str().or_else(|| prices[given.symbol.as_str()].as_str()) {
        Some(price) => {
            let usd = Usd::value_of(amount, price.parse().unwrap(), Rounding::Up).unwrap();
            Ok(ValuedAmount { token: given.clone(), amount: amount.raw(), usd })
        }
        None => Err(UnknownValue::because(format_args!("no price of {}", given.symbol))),
    })
}

/// Deposit of two tokens into a new liquidity position.
fn deposit(case: &Value, network: &Network) -> Option<(SigningPayload, Result<ActionValues, UnknownValue>)> {
    let arguments = &case["call"]["arguments"];
    let mut outflows = Vec::new();
    let mut values = Ok(ActionValues::default());
    for (name, amount) in [("token_a", "amount_a"), ("token_b", "amount_b")] {
        let asked = text(&arguments[name]);
        let given = token(network, asked);
        let found = valued(case, &given, asked, &arguments[amount])?;
        outflows.push(Outflow { token: given, amount: found.as_ref().map_or(U256::from(1), |found| found.amount) });
        values = values.and_then(|mut sum: ActionValues| {
            let found = found?;
            sum.spent = sum.spent.checked_add(found.usd).unwrap();
            sum.outflows.push(found);
            Ok(sum)
        });
    }
    let leg = (KnownContract::V3PositionManager, NonfungiblePositionManager::mintCall::SELECTOR);
    let flows = (outflows, Vec::new());
    Some((change(case, "add_liquidity", network, ProposalIntent::Liquidity, leg, flows), values))
}

/// Withdrawal of what belongs to the account from a position or a lending market.
fn withdrawal(
    case: &Value,
    network: &Network,
    intent: ProposalIntent,
) -> (SigningPayload, Result<ActionValues, UnknownValue>) {
    let (name, leg, tokens) = match intent {
        ProposalIntent::Lending => {
            let leg = (KnownContract::AavePool, AavePool::withdrawCall::SELECTOR);
            ("lending_withdraw", leg, vec![text(&case["call"]["arguments"]["token"])])
        }
        _ => {
            let leg = (KnownContract::V3PositionManager, NonfungiblePositionManager::multicallCall::SELECTOR);
            ("close_position", leg, vec!["WETH", "USDC"])
        }
    };
    let one = U256::from(1);
    let inflows = tokens.into_iter().map(|symbol| Inflow {
        token: token(network, symbol),
        at_least: one,
        expected: one,
        recipient: account_of(case),
    });
    let flows = (Vec::new(), inflows.collect());
    (change(case, name, network, intent, leg, flows), Ok(ActionValues::default()))
}

fn account_of(case: &Value) -> Address {
    let wallets = [&case["call"]["arguments"]["execution_wallet"], &case["default_wallet"]];
    wallets.iter().find_map(|wallet| wallet.as_str()?.parse::<Address>().ok()).unwrap_or(ACCOUNT)
}

/// One call of a contract of the address book, with what leaves and what comes.
fn change(
    case: &Value,
    name: &'static str,
    network: &Network,
    intent: ProposalIntent,
    (contract, selector): (KnownContract, [u8; 4]),
    (outflows, inflows): (Vec<Outflow>, Vec<Inflow>),
) -> SigningPayload {
    let account = account_of(case);
    let leg = PlanLeg {
        purpose: LegPurpose::Main,
        to: network.book.contract(contract).unwrap(),
        value: U256::ZERO,
        data: selector.into(),
        gas_limit: 200_000,
        slots: vec![],
    };
    let mut meta = TOOL;
    meta.name = name;
    meta.action_class = if inflows.is_empty() { ActionClass::NewPosition } else { ActionClass::ClosePosition };
    let legs = vec![PayloadLeg {
        purpose: leg.purpose,
        from: account,
        to: leg.to,
        value: leg.value,
        data: leg.data.clone(),
        gas_limit: leg.gas_limit,
        slots: vec![],
    }];
    let proposal = Proposal {
        chain_id: network.chain_id,
        tool: meta,
        call_id: CallId::new(1),
        golem_id: GolemId::operator(),
        account,
        intent,
        legs: vec![leg],
        outflows,
        inflows,
        allowances: vec![],
        trade: None,
        recipients: vec![account],
        order: None,
        files: Vec::new(),
        replaces: None,
        arrival: None,
        expected_outcome: SafeText::default(),
    };
    SigningPayload::new(PayloadParts {
        proposal,
        kind: AccountKind::LocalKey,
        signer: account,
        payer: account,
        legs,
        order: None,
        fees: FeeBound { max_fee_per_gas: 1_000_000_000, max_priority_fee_per_gas: 1 },
    })
    .unwrap()
}

/// A withdrawal of an account without debt.
fn without_debt(payload: &SigningPayload) -> Option<LendingEffects> {
    if payload.proposal().intent != ProposalIntent::Lending {
        return None;
    }
    let sums = AccountSums {
        collateral: U256::ZERO,
        debt: U256::ZERO,
        available: U256::ZERO,
        threshold: U256::ZERO,
        ltv: U256::ZERO,
        health: U256::MAX,
    };
    let asset = Address::ZERO;
    Some(LendingEffects {
        call: LendingCall::Withdraw { asset, amount: U256::MAX },
        before: sums,
        after: sums,
        gaps: vec![],
        confirmed_health: None,
        falls: vec![],
        symbol: SafeText::default(),
        decimals: 18,
        supply: [U256::from(1), U256::ZERO],
        debt: [U256::ZERO; 2],
    })
}

fn bridge_order(
    from: &Network,
    to: &Network,
    account: Address,
    given: &TokenInfo,
    arrives: TokenInfo,
    amount: U256,
) -> SignedOrder {
    let contract = |token: &TokenInfo| match token.id {
        TokenId::Erc20(address) => address,
        TokenId::Native => Address::ZERO,
    };
    let intent = CrossChainIntent {
        origin_settler: from.book.contract(KnownContract::OriginSettler).unwrap_or(Address::repeat_byte(0x33)),
        user: account,
        nonce: U256::from(1),
        origin_chain_id: from.chain_id,
        open_deadline: 1_760_100_000,
        fill_deadline: 1_760_100_100,
        data: AcrossOrderData {
            inputToken: contract(given),
            inputAmount: amount,
            outputToken: contract(&arrives),
            outputAmount: amount,
            destinationChainId: U256::from(to.chain_id),
            recipient: account.into_word(),
            exclusiveRelayer: Address::ZERO,
            depositNonce: U256::from(1),
            exclusivityPeriod: 0,
            message: Bytes::new(),
        },
    };
    let permit2 = from.book.contract(KnownContract::Permit2).unwrap();
    let arrival = BridgeArrival { chain_id: to.chain_id, token: arrives, at_least: amount, expected: amount };
    SignedOrder {
        message: TypedMessage::CrossChainOrder { permit2, intent: Box::new(intent) },
        holder: Address::repeat_byte(0x44),
        arrival: Some(arrival),
    }
}

fn inputs(
    values: Result<ActionValues, UnknownValue>,
    network: &Network,
    payload: &SigningPayload,
    equity: Usd,
    now: u64,
) -> CheckInputs {
    let pinned = PinnedBlock { chain_id: network.chain_id, number: 1, hash: B256::ZERO };
    let proposal = payload.proposal();
    let named = proposal.outflows.iter().map(|one| &one.token).chain(proposal.inflows.iter().map(|one| &one.token));
    CheckInputs {
        now_millis: now,
        block_time: now / 1_000,
        phase: Phase::Thriving,
        stop: None,
        tokens: named.map(|token| (token.id, token.clone())).collect(),
        values,
        portfolio: Ok(Portfolio { equity, ..Portfolio::default() }),
        simulation: Some(SimulatedEffects {
            pinned,
            gas_used: 150_000,
            gas_cost: U256::ZERO,
            class: proposal.tool.action_class,
            // What comes out of one's own position is an exit by the chain's changes.
            leaves: proposal.tool.action_class == ActionClass::ClosePosition,
            reduce_only: proposal.tool.action_class == ActionClass::ClosePosition,
            only_revokes: false,
            moves: vec![],
            paid: vec![],
            lending: without_debt(payload),
            simulation: Simulation { pinned, outcomes: vec![], changes: StateChanges::default() },
        }),
        asked: false,
    }
}

/// Converts seconds of the file into milliseconds.
fn millis(seconds: f64) -> u64 {
    format!("{:.0}", seconds * 1_000.0).parse().unwrap()
}
