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

fn proposal(call: VaultCall) -> Proposal {
    let (token, share) = (sample::token(ASSET, "T", 6), sample::token(VAULT, "S", 6));
    let (given, received) = match call {
        VaultCall::Deposit { .. } => (token, share),
        VaultCall::Redeem { .. } => (share, token),
    };
    let at_least = U256::from(900_000);
    let mut made = sample::proposal(ME, ProposalIntent::Vault, sample::leg(VAULT, call.calldata(ME)));
    made.outflows = vec![Outflow { token: given, amount: amount() }];
    made.inflows = vec![Inflow { token: received, at_least, expected: at_least, recipient: ME }];
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
        let plan = VaultPlan { vault: VAULT, asset: ASSET, call, at_least: U256::from(900_000) };
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
        let wrong: [&dyn Fn(&mut Proposal); 8] = [
            &|one| one.legs[0].to = OTHER,
            &|one| one.outflows.push(more.clone()),
            &|one| one.outflows[0].amount += U256::ONE,
            &|one| one.outflows.clear(),
            &|one| one.inflows[0].recipient = OTHER,
            &|one| one.inflows[0].at_least = U256::ZERO,
            &|one| one.inflows.clear(),
            &|one| one.recipients.push(OTHER),
        ];
        for (at, change) in wrong.into_iter().enumerate() {
            assert_eq!(changed(change), Err(VaultRuleError::Flows), "{call:?} {at}");
        }
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

fn ground() -> VaultGround {
    VaultGround {
        asset: Some(ASSET),
        supply: Some(U256::from(LEAST_SUPPLY)),
        jumped: false,
        price: SharePrice::default(),
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
