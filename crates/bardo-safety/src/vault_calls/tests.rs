use std::path::Path;

use alloy::primitives::{Bytes, address};

use super::*;
use crate::policy::{Policy, parse};
use crate::proposal::{AllowanceBound, AllowanceKind, Inflow, Outflow};
use crate::sample;

const VAULT: Address = address!("0x00000000000000000000000000000000000000c1");
const ME: Address = address!("0x00000000000000000000000000000000000000a1");
const OTHER: Address = address!("0x00000000000000000000000000000000000000a2");
const ASSET: Address = address!("0x00000000000000000000000000000000000000d1");

fn amount() -> U256 {
    U256::from(1_000_000)
}

fn deposit() -> VaultCall {
    VaultCall::Deposit { assets: amount() }
}

fn redeem() -> VaultCall {
    VaultCall::Redeem { shares: amount() }
}

/// Each form of an asynchronous vault's calls.
fn asynchronous() -> [VaultCall; 5] {
    [
        VaultCall::RequestDeposit { assets: amount() },
        VaultCall::RequestRedeem { shares: amount() },
        VaultCall::ClaimShares { assets: amount() },
        VaultCall::ClaimAssets { shares: amount() },
        VaultCall::CancelDeposit,
    ]
}

fn proposal(call: VaultCall) -> Proposal {
    let token = |side: VaultSide| match side {
        VaultSide::Asset => sample::token(ASSET, "T", 6),
        VaultSide::Share => sample::token(VAULT, "S", 6),
    };
    let at_least = U256::from(900_000);
    let mut made = sample::proposal(ME, ProposalIntent::Vault, sample::leg(VAULT, call.calldata(ME)));
    let given = call.gives().map(|side| Outflow { token: token(side), amount: amount() });
    let received = call.receives().map(token);
    made.outflows = given.into_iter().collect();
    let into = |token| Inflow { token, at_least, expected: at_least, recipient: ME };
    made.inflows = received.map(into).into_iter().collect();
    made
}

fn judged(proposal: &Proposal) -> Result<VaultPlan, VaultRuleError> {
    decode(proposal.legs.iter().find(|leg| leg.purpose == LegPurpose::Main).unwrap(), proposal)
}

fn approval(purpose: LegPurpose, to: Address, spender: Address, value: U256) -> PlanLeg {
    let data: Bytes = Erc20::approveCall { spender, value }.abi_encode().into();
    PlanLeg { purpose, ..sample::leg(to, data) }
}

#[test]
fn a_vault_action_does_nothing_else() {
    for call in [deposit(), redeem()] {
        let plan = VaultPlan { vault: VAULT, asset: Some(ASSET), call, at_least: U256::from(900_000) };
        assert_eq!(judged(&proposal(call)), Ok(plan));
        let changed = |change: &dyn Fn(&mut Proposal)| {
            let mut proposal = proposal(call);
            change(&mut proposal);
            judged(&proposal)
        };
        assert_eq!(changed(&|one| one.intent = ProposalIntent::Swap), Err(VaultRuleError::Beside));
        assert_eq!(changed(&|one| one.account = OTHER), Err(VaultCallError::Beneficiary(ME).into()));
        assert_eq!(changed(&|one| one.legs[0].value = U256::ONE), Err(VaultRuleError::DoesMore));
        assert_eq!(changed(&|one| one.legs.push(one.legs[0].clone())), Err(VaultRuleError::DoesMore));
        let more = Outflow { token: sample::token(OTHER, "O", 18), amount: U256::ONE };
        let wrong: [&dyn Fn(&mut Proposal); 7] = [
            &|one| one.legs[0].to = OTHER,
            &|one| one.outflows.push(more.clone()),
            &|one| one.outflows[0].amount += U256::ONE,
            &|one| one.inflows[0].recipient = OTHER,
            &|one| one.inflows[0].at_least = U256::ZERO,
            &|one| one.inflows.clear(),
            &|one| one.recipients.push(OTHER),
        ];
        for (at, change) in wrong.into_iter().enumerate() {
            assert_eq!(changed(change), Err(VaultRuleError::Flows), "{call:?} {at}");
        }
        // Without what leaves, a deposit is nothing; the bytes of a redemption are a claim then.
        let claims = VaultPlan { call: call.claiming(), ..plan };
        let expected = if call == deposit() { Err(VaultRuleError::Flows) } else { Ok(claims) };
        assert_eq!(changed(&|one| one.outflows.clear()), expected);
        // The allowance of a deposit, for the vault alone, no larger, and used up or revoked.
        let gives = call == deposit();
        let exact = amount();
        for (to, spender, value, left, right) in [
            (ASSET, VAULT, exact, 0, true),
            (OTHER, VAULT, exact, 0, false),
            (ASSET, OTHER, exact, 0, false),
            (ASSET, VAULT, exact + U256::ONE, 0, false),
            (ASSET, VAULT, exact, 1, false),
        ] {
            let allowed = changed(&|one| {
                one.legs.insert(0, approval(LegPurpose::Approve, to, spender, value));
                let (token, kind) = (sample::token(to, "T", 6), AllowanceKind::Erc20);
                one.allowances.push(AllowanceBound { token, spender, kind, at_most: U256::from(left) });
            });
            let expected = if gives && right { Ok(plan) } else { Err(VaultRuleError::Allowance) };
            assert_eq!(allowed, expected, "{call:?} {to} {spender} {value} {left}");
        }
    }
}

/// A request declares only its payment and a claim only its result; only a request to deposit may set an allowance.
#[test]
fn requests_and_claims_declare_one_side() {
    for call in asynchronous() {
        let honest = proposal(call);
        let plan = judged(&honest).unwrap();
        assert_eq!((plan.call, plan.vault), (call, VAULT));
        let moves_asset = call.gives() == Some(VaultSide::Asset) || call.receives() == Some(VaultSide::Asset);
        assert_eq!(plan.asset, moves_asset.then_some(ASSET), "{call:?}");
        assert_eq!((plan.is_exit(), plan.is_claim()), (!call.is_deposit(), call.gives().is_none()));
        let refused = |change: &dyn Fn(&mut Proposal)| {
            let mut changed = honest.clone();
            change(&mut changed);
            assert_eq!(judged(&changed), Err(VaultRuleError::Flows), "{call:?} {changed:?}");
        };
        let (other, at_least) = (sample::token(OTHER, "O", 6), U256::ONE);
        let more = Inflow { token: other.clone(), at_least, expected: at_least, recipient: ME };
        refused(&|one| one.inflows.push(more.clone()));
        refused(&|one| one.recipients.push(OTHER));
        if call.gives().is_some() {
            refused(&|one| one.outflows[0].amount += U256::ONE);
            refused(&|one| one.outflows.push(Outflow { token: other.clone(), amount: U256::ONE }));
        } else {
            refused(&|one| one.inflows[0].at_least = U256::ZERO);
            refused(&|one| one.inflows[0].recipient = OTHER);
            refused(&|one| one.outflows.push(Outflow { token: other.clone(), amount: amount() }));
        }
        // Shares where the token belongs, and the reverse.
        let swapped = |id: TokenId| match id == TokenId::Erc20(VAULT) {
            true => sample::token(ASSET, "T", 6),
            false => sample::token(VAULT, "S", 6),
        };
        refused(&|one| {
            one.outflows.iter_mut().for_each(|flow| flow.token = swapped(flow.token.id));
            one.inflows.iter_mut().for_each(|flow| flow.token = swapped(flow.token.id));
        });
        let mut allowing = honest.clone();
        allowing.legs.insert(0, approval(LegPurpose::Approve, ASSET, VAULT, amount()));
        let allowed = if call.is_deposit() { Ok(plan) } else { Err(VaultRuleError::Allowance) };
        assert_eq!(judged(&allowing), allowed, "{call:?}");
    }
}

/// The payment of a request may wait in the vault, or in the first contract that it made; nowhere else.
#[test]
fn only_the_vault_and_its_silo_keep_what_is_requested() {
    // By the rule of CREATE for the nonce 1: the last 20 bytes of keccak256(rlp([vault, 1])).
    let silo = Address::from_slice(
        &alloy::primitives::keccak256([&[0xd6, 0x94][..], VAULT.as_slice(), &[0x01]].concat())[12..],
    );
    for call in asynchronous().into_iter().chain([deposit(), redeem()]) {
        let requests = matches!(call, VaultCall::RequestDeposit { .. } | VaultCall::RequestRedeem { .. });
        let kept = [VAULT, silo, OTHER, VAULT.create(2)].map(|one| keeps(one, &proposal(call)));
        assert_eq!(kept, [requests, requests, false, false], "{call:?}");
    }
}

fn ground() -> VaultGround {
    VaultGround {
        asynchrony: Asynchrony::default(),
        asset: Some(ASSET),
        supply: Some(U256::from(LEAST_SUPPLY)),
        jumped: false,
        price: SharePrice::default(),
        past: None,
        has_settlers: false,
    }
}

fn rules(call: VaultCall, ground: Option<&VaultGround>, back: Option<Result<u64, &str>>) -> Vec<RuleName> {
    let back = back.map(|back| back.map(U256::from).map_err(|why| SafeText::clean(why, 100)));
    let most = BasisPoints::new(200).unwrap();
    faults(&proposal(call), ground, back.as_ref(), most).into_iter().map(|fault| fault.rule).collect()
}

/// By hand: two percent of a million may be lost, so 980,000 must come back.
#[test]
fn a_deposit_must_pay_out_again_from_a_vault_with_shares() {
    let of = |back| rules(deposit(), Some(&ground()), Some(back));
    assert_eq!(of(Ok(980_000)), []);
    assert_eq!(of(Ok(979_999)), [RuleName::MaxLossBps]);
    assert_eq!(of(Ok(0)), [RuleName::MaxLossBps]);
    assert_eq!(of(Err("locked")), [RuleName::VaultExit]);
    for supply in [Some(U256::from(LEAST_SUPPLY - 1)), Some(U256::ZERO), None] {
        let thin = VaultGround { supply, ..ground() };
        assert_eq!(rules(deposit(), Some(&thin), Some(Ok(1_000_000))), [RuleName::VaultSupply], "{supply:?}");
    }
    let other = VaultGround { asset: Some(OTHER), ..ground() };
    for call in [deposit(), redeem()] {
        assert_eq!(rules(call, Some(&other), Some(Ok(1_000_000))), [RuleName::Calldata]);
        assert!(rules(call, None, Some(Ok(1_000_000))).contains(&RuleName::Calldata), "a vault that was not read");
    }
    // Whatever the vault is: what is in there must come out.
    let thin = VaultGround { supply: Some(U256::ZERO), ..ground() };
    assert_eq!(rules(redeem(), Some(&thin), None), []);
}

/// A vault that says it takes requests is called in the forms of requests, and no other one is.
#[test]
fn the_form_of_the_call_is_the_vaults() {
    let taking = |deposits, redemptions| VaultGround { asynchrony: Asynchrony { deposits, redemptions }, ..ground() };
    for call in asynchronous().into_iter().chain([deposit(), redeem()]) {
        let (mine, other) = (call.concerns_deposits(), !call.concerns_deposits());
        for (fits, ground) in
            [(call.is_asynchronous(), taking(mine, other)), (!call.is_asynchronous(), taking(other, mine))]
        {
            let expected = if fits { vec![] } else { vec![RuleName::Calldata] };
            assert_eq!(rules(call, Some(&ground), Some(Ok(1_000_000))), expected, "{call:?} {ground:?}");
        }
    }
}

/// By hand, as above: 980,000 of a million must come back by cancelling. Donations move no price that a manager states.
#[test]
fn a_request_to_deposit_must_be_cancellable() {
    let asynchrony = Asynchrony { deposits: true, redemptions: true };
    let ground = VaultGround { asynchrony, supply: Some(U256::ZERO), ..ground() };
    let of = |back| rules(VaultCall::RequestDeposit { assets: amount() }, Some(&ground), Some(back));
    assert_eq!(of(Ok(980_000)), []);
    assert_eq!(of(Ok(979_999)), [RuleName::MaxLossBps]);
    assert_eq!(of(Err("no cancellation")), [RuleName::VaultExit]);
    for call in asynchronous().into_iter().skip(1) {
        assert_eq!(rules(call, Some(&ground), None), [], "{call:?}");
    }
}

/// By hand: the million shares were worth 1,000 units and one that is rounded up, of which two percent may be missing: 980.98. At a
/// price of 977 they are worth 978, and 980 with two units of rounding, which is less; at 979 they are not.
#[test]
fn a_request_to_redeem_asks_where_nothing_bounds_its_price() {
    let most = BasisPoints::new(200).unwrap();
    let price = |units: u64| U256::from(units) * U256::from(10).pow(U256::from(12));
    let call = VaultCall::RequestRedeem { shares: amount() };
    let plan = plan(&proposal(call)).unwrap();
    let asynchrony = Asynchrony { deposits: true, redemptions: true };
    let past = |price| Some(PastVault { asynchrony, price });
    let whole = Some(price(1_000));
    let usual = VaultGround {
        asynchrony,
        price: SharePrice { now: whole, past: None },
        past: past(whole),
        has_settlers: true,
        ..ground()
    };
    assert_eq!(usual.asks(&plan, most), None);
    let now = |units| VaultGround { price: SharePrice { now: Some(price(units)), past: None }, ..usual };
    for (expected, changed) in [
        (Some(CheckReason::NewlyAsynchronous), VaultGround { past: None, ..usual }),
        (
            Some(CheckReason::NewlyAsynchronous),
            VaultGround { past: Some(PastVault { asynchrony: Asynchrony::default(), price: whole }), ..usual },
        ),
        (Some(CheckReason::RequestUnbounded), VaultGround { past: past(None), ..usual }),
        (Some(CheckReason::RequestUnbounded), VaultGround { has_settlers: false, ..usual }),
        (Some(CheckReason::RequestUnbounded), VaultGround { price: SharePrice::default(), ..usual }),
        (Some(CheckReason::RequestUnbounded), now(0)),
        (Some(CheckReason::SharePriceFell), now(977)),
        (None, now(979)),
        (None, now(2_000)),
    ] {
        assert_eq!(changed.asks(&plan, most), expected, "{changed:?}");
    }
}

#[test]
fn requests_claims_and_cancellations_are_proven_by_event_and_transfer() {
    let log = |address, data| Log { address, data };
    let ids = (U256::from(7), amount());
    let requests = |of: Address, assets| Erc7540::DepositRequest {
        controller: of,
        owner: of,
        requestId: ids.0,
        sender: of,
        assets,
    };
    let redeems = |of: Address, shares| Erc7540::RedeemRequest {
        controller: of,
        owner: of,
        requestId: ids.0,
        sender: of,
        shares,
    };
    let cancels = |controller| LagoonVault::DepositRequestCanceled { requestId: ids.0, controller };
    let deposited =
        |owner, shares: u64| Erc4626::Deposit { sender: ME, owner, assets: ids.1, shares: U256::from(shares) };
    let missing = |call: VaultCall, logs: &[Log]| unproven(&proposal(call), &logs.iter().collect::<Vec<_>>());
    let [asks, gives_back, claims, takes, cancelled] = asynchronous();
    // The event of the vault, the same of somebody else, and the transfer that belongs to it.
    for (call, event, [told, other], moved) in [
        (
            asks,
            "DepositRequest",
            [requests(ME, ids.1).encode_log_data(), requests(OTHER, ids.1).encode_log_data()],
            transfer(ASSET, ME, VAULT, 1_000_000),
        ),
        (
            gives_back,
            "RedeemRequest",
            [redeems(ME, ids.1).encode_log_data(), redeems(ME, ids.1 - U256::ONE).encode_log_data()],
            transfer(VAULT, ME, VAULT, 1_000_000),
        ),
        (
            claims,
            "Deposit",
            [deposited(ME, 900_000).encode_log_data(), deposited(ME, 899_999).encode_log_data()],
            transfer(VAULT, VAULT, ME, 900_000),
        ),
        (
            cancelled,
            "DepositRequestCanceled",
            [cancels(ME).encode_log_data(), cancels(OTHER).encode_log_data()],
            transfer(ASSET, VAULT, ME, 900_000),
        ),
    ] {
        assert_eq!(missing(call, &[log(VAULT, told.clone()), moved.clone()]), None, "{event}");
        for logs in [
            vec![],
            vec![log(VAULT, told.clone())],
            vec![moved.clone()],
            vec![log(OTHER, told), moved.clone()],
            vec![log(VAULT, other), moved],
        ] {
            assert_eq!(missing(call, &logs), Some(event), "{logs:?}");
        }
    }
    // The claim of tokens has the event of a withdrawal.
    let withdrawn =
        Erc4626::Withdraw { sender: ME, receiver: ME, owner: ME, assets: U256::from(900_000), shares: amount() };
    let withdrawn = log(VAULT, withdrawn.encode_log_data());
    assert_eq!(missing(takes, &[withdrawn.clone(), transfer(ASSET, VAULT, ME, 900_000)]), None);
    assert_eq!(missing(takes, &[withdrawn, transfer(ASSET, VAULT, ME, 899_999)]), Some("Withdraw"));
}

fn transfer(token: Address, from: Address, to: Address, value: u64) -> Log {
    let event = Erc20::Transfer { from, to, value: U256::from(value) };
    Log { address: token, data: event.encode_log_data() }
}

#[test]
fn an_action_is_proven_by_the_vaults_event_and_the_tokens_transfer() {
    let told = |at: Address, owner, assets: u64, shares: u64| {
        let (assets, shares) = (U256::from(assets), U256::from(shares));
        let event = Erc4626::Deposit { sender: ME, owner, assets, shares };
        Log { address: at, data: event.encode_log_data() }
    };
    let missing = |call: VaultCall, logs: &[Log]| unproven(&proposal(call), &logs.iter().collect::<Vec<_>>());
    let paid = || transfer(ASSET, ME, VAULT, 1_000_000);
    assert_eq!(missing(deposit(), &[told(VAULT, ME, 1_000_000, 900_000), paid()]), None);
    for logs in [
        vec![],
        vec![paid()],
        vec![told(VAULT, ME, 1_000_000, 900_000)],
        vec![told(OTHER, ME, 1_000_000, 900_000), paid()],
        vec![told(VAULT, OTHER, 1_000_000, 900_000), paid()],
        vec![told(VAULT, ME, 999_999, 900_000), paid()],
        vec![told(VAULT, ME, 1_000_000, 899_999), paid()],
        vec![told(VAULT, ME, 1_000_000, 900_000), transfer(OTHER, ME, VAULT, 1_000_000)],
    ] {
        assert_eq!(missing(deposit(), &logs), Some("Deposit"), "{logs:?}");
    }
    let told = |receiver, owner, assets: u64, shares: u64| {
        let (assets, shares) = (U256::from(assets), U256::from(shares));
        let event = Erc4626::Withdraw { sender: ME, receiver, owner, assets, shares };
        Log { address: VAULT, data: event.encode_log_data() }
    };
    let came = |value| transfer(ASSET, VAULT, ME, value);
    assert_eq!(missing(redeem(), &[told(ME, ME, 900_000, 1_000_000), came(900_000)]), None);
    for logs in [
        vec![told(ME, ME, 900_000, 1_000_000), came(899_999)],
        vec![told(ME, ME, 899_999, 1_000_000), came(900_000)],
        vec![told(OTHER, ME, 900_000, 1_000_000), came(900_000)],
        vec![told(ME, OTHER, 900_000, 1_000_000), came(900_000)],
        vec![told(ME, ME, 900_000, 999_999), came(900_000)],
    ] {
        assert_eq!(missing(redeem(), &logs), Some("Withdraw"), "{logs:?}");
    }
}

#[test]
fn the_policy_names_the_vaults() {
    let policy = |line: &str| -> Policy { parse(&format!("preset = \"demo\"\n{line}"), Path::new("p.toml")).unwrap() };
    let plan = plan(&proposal(deposit())).unwrap();
    let mut book = AddressBook::default();
    let allows = |policy: &Policy, book: &AddressBook| plan.is_allowed(31_337, policy.rules(), Some(book));
    assert!(!allows(&policy(""), &book), "the preset: the address book's alone");
    let named = policy(&format!("allowed_vaults = [\"devnet-ethereum:{VAULT}\"]"));
    assert!(allows(&named, &book));
    assert!(!allows(&policy(&format!("allowed_vaults = [\"devnet-base:{VAULT}\"]")), &book), "of another chain");
    book.set("vault", VAULT);
    assert!(allows(&policy(""), &book));
    assert!(!allows(&policy("allowed_vaults = []"), &book));
    assert_eq!(known(31_337, Some(named.rules()), &AddressBook::default()), [VAULT].into());
    assert_eq!(known(31_337, Some(policy("").rules()), &book), [VAULT].into());
    assert_eq!(known(31_337, None, &AddressBook::default()), BTreeSet::new());
    // An upgrade does not make the stored policy unknown, and another list is another policy.
    assert_ne!(policy("allowed_vaults = []").hash(), policy("").hash());
}
