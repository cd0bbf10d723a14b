//! The reads of the wallet, compared with what the chain itself answers and with arithmetic by hand.

use alloy::primitives::{Bytes, hex, keccak256};
use golem_chain::network::DataFees;

use super::*;

/// Code that answers every call with `word`: PUSH32 word PUSH0 MSTORE PUSH1 32 PUSH0 RETURN.
fn answers(word: U256) -> Bytes {
    [&[0x7f][..], &word.to_be_bytes::<32>(), &hex!("5f5260205ff3")].concat().into()
}

async fn put_code(sandbox: &Sandbox, at: Address, code: Bytes) {
    sandbox.chains()[0].devnet.run(move |chain| chain.set_code(at, code)).await.unwrap().unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_accounts_type_follows_from_its_code_and_not_from_what_it_says() {
    let harness = harness(None);
    let book = &harness.ethereum().network().book;
    let delegator = book.contract(KnownContract::Eip7702Delegator).unwrap();
    let (usdc, plain) = (harness.token("USDC"), SANDBOX.accounts()[5]);
    let (known, unknown, actor) = (Address::repeat_byte(0xd1), Address::repeat_byte(0xd2), Address::repeat_byte(0xd3));
    let designator = |to: Address| Bytes::from([&hex!("ef0100")[..], to.as_slice()].concat());
    put_code(&SANDBOX, known, designator(delegator)).await;
    put_code(&SANDBOX, unknown, designator(Address::repeat_byte(0xd4))).await;
    // It answers the views of every kind of smart account, and is none.
    let entry_point = book.contract(KnownContract::EntryPoint).unwrap();
    put_code(&SANDBOX, actor, answers(U256::from_be_slice(entry_point.as_slice()))).await;

    let provider = harness.ethereum().client.provider();
    let shown = async |of: Address| {
        let data = harness.data("wallet_detect_account_type", json!({"address": of.to_string()})).await;
        let code = provider.get_code_at(of).await.unwrap();
        assert_eq!((&data["has_code"], &data["code_size"]), (&json!(!code.is_empty()), &json!(code.len())), "{data}");
        let hash = (!code.is_empty()).then(|| keccak256(&code).to_string());
        assert_eq!(data["code_hash"], json!(hash), "{data}");
        assert_eq!(data["nonce"], json!(provider.get_transaction_count(of).await.unwrap()), "{data}");
        data
    };
    for never_used in [plain, Address::repeat_byte(0xd5)] {
        let data = shown(never_used).await;
        assert_eq!((&data["account_type"], &data["delegate"]), (&json!("eoa"), &Value::Null));
    }
    let token = shown(usdc).await;
    assert_eq!((&token["account_type"], &token["label"]), (&json!("contract"), &json!("USDC")));
    assert_eq!(token["claims"], json!([]));
    let delegated = shown(known).await;
    assert_eq!(delegated["account_type"], "eip7702");
    assert_eq!(delegated["delegate"], json!({"address": delegator.to_string(), "label": "EIP-7702 delegator"}));
    // The real implementation names the entry point that it was deployed with.
    let claim = &delegated["claims"][0];
    assert_eq!(claim["kind"], "erc4337", "{delegated}");
    assert!(claim["answer"].as_str().unwrap().contains(&entry_point.to_string()), "{claim}");
    let stranger = shown(unknown).await;
    assert_eq!(stranger["account_type"], "eip7702");
    assert_eq!(stranger["delegate"]["label"], Value::Null);
    let liar = shown(actor).await;
    assert_eq!(liar["account_type"], "contract", "a claim decides nothing");
    assert!(!liar["claims"].as_array().unwrap().iter().any(|claim| claim["kind"] == "safe"), "{liar}");

    let bad = harness.code("wallet_detect_account_type", json!({"address": "0x12"})).await;
    assert_eq!(bad, (CallStatus::Error, ErrorCode::ValidationFailed));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_status_is_what_the_chains_answer() {
    let mut harness = harness(Some(6));
    let owner = SANDBOX.accounts()[6];
    harness
        .send(6, harness.token("USDC"), bardo_abi::erc20::OpenMint::mintCall { to: owner, value: uint!(9_U256) })
        .await;
    let data = harness.data("wallet_get_status", json!({})).await;
    assert_eq!(harness.steps(), ["Querying provider 1/3", "Loading balances 2/3", "Checking session keys 3/3"]);
    assert_eq!(data["address"], owner.to_string());
    // Neither a ledger nor a policy is open here, so nothing is claimed about them.
    for unknown in ["provider", "pending_transactions", "policy_summary"] {
        assert_eq!(data[unknown], Value::Null, "{unknown}");
    }
    let chains = data["balances"].as_array().unwrap();
    assert_eq!(chains.iter().map(|chain| &chain["chain_id"]).collect::<Vec<_>>(), [31_337, 31_338]);
    for (shown, chain) in chains.iter().zip(harness.world.chains()) {
        let provider = chain.client.provider();
        let wei = provider.get_balance(owner).await.unwrap();
        let native = bardo_base::units::TokenAmount::parse(shown["native_balance"].as_str().unwrap(), 18).unwrap();
        assert_eq!(native.raw(), wei, "{shown:#}");
        assert_eq!(shown["nonce"], json!(provider.get_transaction_count(owner).await.unwrap()));
        assert_eq!(shown["account_type"], "eoa");
        let mut held = 0;
        for token in chain.network().book.tokens() {
            let call = Erc20::balanceOfCall { owner }.abi_encode();
            let output = provider.call(TransactionRequest::default().with_to(token.address).with_input(call)).await;
            let balance = output.ok().and_then(|output| Erc20::balanceOfCall::abi_decode_returns(&output).ok());
            held += usize::from(balance.is_some_and(|balance| !balance.is_zero()));
        }
        assert_eq!(shown["token_count"], json!(held), "{shown:#}");
    }

    // A delegation is seen on the chain where it is, and the policy in force is named.
    let delegated = Address::repeat_byte(0xe1);
    let code = [&hex!("ef0100")[..], &[0xe2; 20]].concat();
    put_code(&SANDBOX, delegated, code.into()).await;
    let policy = bardo_safety::policy::Policy::preset(bardo_safety::policy::PolicyPreset::Demo);
    let hash = policy.hash().to_string();
    let mut world = ToolEnvironment::clone(&harness.world).bound_by(Arc::new(policy));
    (world.account, world.custody) = (Some(delegated), Some(bardo_safety::AccountKind::LocalKey));
    let data = harness_in(world).data("wallet_get_status", json!({})).await;
    assert_eq!((&data["provider"], &data["account_type"]), (&json!("local_key"), &json!("eip7702")));
    assert_eq!(data["balances"][0]["delegate"], Address::repeat_byte(0xe2).to_string());
    assert_eq!((&data["balances"][1]["account_type"], &data["balances"][1]["delegate"]), (&json!("eoa"), &Value::Null));
    // The specification's demo policy: 2,500 dollars at once, 5,000 a day, a question above 1,000.
    let expected = json!({"name": "demo", "hash": hash, "max_single_trade_usd": "2500",
        "max_daily_spend_usd": "5000", "approval_above_usd": "1000"});
    assert_eq!(data["policy_summary"], expected);
    let nobody = super::harness(None).code("wallet_get_status", json!({})).await;
    assert_eq!(nobody, (CallStatus::Error, ErrorCode::WalletNotConfigured));
}

/// The devnet changes its fees with each block, so this one is not shared.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_gas_price_is_the_chains_and_costs_are_gas_times_price() {
    let sandbox = sandbox();
    let harness = harness_on(&sandbox, None);
    let provider = harness.ethereum().client.provider();
    let history: Value = provider.raw_request("eth_feeHistory".into(), ("0x14", "latest", [50])).await.unwrap();
    let number = |value: &Value| u128::from_str_radix(value.as_str().unwrap().trim_start_matches("0x"), 16).unwrap();
    let base = number(history["baseFeePerGas"].as_array().unwrap().last().unwrap());
    let gwei = |text: &Value| bardo_base::units::TokenAmount::parse(text.as_str().unwrap(), 9).unwrap().raw();
    let ether = |text: &Value| bardo_base::units::TokenAmount::parse(text.as_str().unwrap(), 18).unwrap().raw();

    let tool = "wallet_get_gas_price";
    let data = harness.data(tool, json!({"chain_id": 31337})).await;
    assert_eq!(gwei(&data["base_fee_gwei"]), U256::from(base));
    let tip = gwei(&data["priority_fee_gwei"]);
    assert!(!tip.is_zero());
    let price = harness.data("get_token_price", json!({"token": "WETH", "chain": "ethereum"})).await;
    assert_eq!(data["native_price_usd"], price["price_usd"]);
    assert_eq!((&data["data_fee"], &data["no_cost"]), (&json!("none"), &Value::Null));
    let usd = |text: &Value| text.as_str().unwrap().parse::<f64>().unwrap();
    let costs = data["costs"].as_array().unwrap();
    for cost in costs {
        let gas = U256::from(cost["gas"].as_u64().unwrap());
        assert_eq!(ether(&cost["gas_cost"]), gas * (U256::from(base) + tip), "{cost}");
        let expected = usd(&cost["gas_cost"]) * usd(&price["price_usd"]);
        assert!((usd(&cost["cost_usd"]) / expected - 1.0).abs() < 1e-6, "{cost}: {expected}");
    }
    let of = |action: &str| costs.iter().find(|cost| cost["action"] == action).unwrap();
    assert_eq!(of("native_transfer")["gas"], 21_000);
    assert_eq!(data["estimated_swap_cost_usd"], of("swap")["cost_usd"]);
    assert_eq!(data["estimated_lp_cost_usd"], of("add_liquidity")["cost_usd"]);

    // A rollup's fee for data comes on top, as its oracle says: 3 · 10¹³ wei.
    let oracle = Address::repeat_byte(0x0f);
    let fee = U256::from(30_000_000_000_000_u64);
    put_code(&sandbox, oracle, answers(fee)).await;
    let charging = |data_fees: DataFees| {
        let chains = harness.world.chains().iter().cloned().map(|chain| chain.charging(data_fees));
        harness_in(ToolEnvironment::new(Arc::new(SystemClock), None, chains.collect(), vec![]))
    };
    let rollup = charging(DataFees::Oracle(oracle)).data(tool, json!({})).await;
    assert_eq!(rollup["data_fee"], "included");
    for cost in rollup["costs"].as_array().unwrap() {
        assert_eq!(ether(&cost["data_fee"]), fee);
        let expected = (usd(&cost["gas_cost"]) + 0.000_03) * usd(&price["price_usd"]);
        assert!((usd(&cost["cost_usd"]) / expected - 1.0).abs() < 1e-6, "{cost}: {expected}");
    }
    // A fee that is not known is not left out of a cost in silence, and an oracle that is not there is an error.
    let unknown = charging(DataFees::Unknown).data(tool, json!({})).await;
    assert_eq!((&unknown["data_fee"], &unknown["estimated_swap_cost_usd"]), (&json!("unknown"), &Value::Null));
    assert!(unknown["no_cost"].as_str().unwrap().contains("chains.ethereum.data_fee_oracle"), "{unknown}");
    let silent = charging(DataFees::Oracle(Address::repeat_byte(0x0e))).code(tool, json!({})).await;
    assert_eq!(silent, (CallStatus::Error, ErrorCode::ChainInconsistent));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn supported_chains_are_the_configured_ones_with_what_works_on_them() {
    let harness = harness(None);
    let data = harness.data("wallet_get_supported_chains", json!({})).await;
    let chains = data["chains"].as_array().unwrap();
    assert_eq!(chains.len(), 2);
    for (shown, (name, id)) in chains.iter().zip([("ethereum", 31_337), ("base", 31_338)]) {
        assert_eq!((&shown["name"], &shown["chain_id"]), (&json!(name), &json!(id)));
        let known =
            json!([shown["money"], shown["native_symbol"], shown["rpc_status"], shown["auctions"], shown["error"]]);
        assert_eq!(known, json!(["devnet", "ETH", "healthy", false, null]));
        // The devnet mines a block for each transaction only, but other tests share it.
        let newest = harness.world.chain(name).unwrap().client.provider().get_block_number().await.unwrap();
        let number = shown["block_number"].as_u64().unwrap();
        assert!(number > 0 && number <= newest, "{number} {newest}");
        assert!(shown["uniswap_versions"].as_array().unwrap().contains(&json!("v3")), "{shown:#}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_delegation_to_unknown_code_is_named_and_nothing_is_claimed_about_it() {
    let harness = harness(Some(7));
    let none = harness.data("wallet_get_delegation", json!({})).await;
    assert_eq!((&none["delegated"], &none["understood"]), (&json!(false), &json!(false)));
    assert_eq!((&none["permissions"], &none["complete"]), (&json!([]), &json!(true)));

    let (account, delegate) = (Address::repeat_byte(0xf1), Address::repeat_byte(0xf2));
    put_code(&SANDBOX, account, [&hex!("ef0100")[..], delegate.as_slice()].concat().into()).await;
    let harness = harness_of(account);
    let data = harness.data("wallet_get_delegation", json!({"chain_id": "ethereum"})).await;
    assert_eq!((&data["delegated"], &data["understood"]), (&json!(true), &json!(false)));
    assert_eq!((&data["delegate_address"], &data["delegate_label"]), (&json!(delegate.to_string()), &Value::Null));
    assert_eq!((&data["complete"], &data["paused"]), (&json!(false), &Value::Null));
    let elsewhere = harness.data("wallet_get_delegation", json!({"chain_id": 31338})).await;
    assert_eq!(elsewhere["delegated"], false, "a delegation is one chain's");
    let bad = harness.code("wallet_get_delegation", json!({"method": "transfer"})).await;
    assert_eq!(bad, (CallStatus::Error, ErrorCode::ValidationFailed));
}
