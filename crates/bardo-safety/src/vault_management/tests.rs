use alloy::primitives::{B256, address};

use super::*;
use crate::proposal::{AllowanceBound, AllowanceKind, Inflow, Outflow};
use crate::sample;
use bardo_base::model::ToolMeta;
use golem_chain::network::BookToken;
use golem_protocols::erc7540::manage::NewVault;

const ME: Address = address!("0x00000000000000000000000000000000000000a1");
const OTHER: Address = address!("0x00000000000000000000000000000000000000a2");
const VAULT: Address = address!("0x00000000000000000000000000000000000000c1");
const FACTORY: Address = address!("0x00000000000000000000000000000000000000f1");
const ASSET: Address = address!("0x00000000000000000000000000000000000000d1");

fn book() -> AddressBook {
    let mut book = AddressBook::default();
    book.set("asyncVaultFactory", FACTORY);
    let (symbol, name) = ("T".to_owned(), "T".to_owned());
    book.set_token(BookToken { symbol, name, decimals: 6, address: ASSET });
    book
}

fn total() -> U256 {
    U256::from(1_000_000)
}

fn forms() -> [ManageCall; 6] {
    let (name, symbol) = ("V".to_owned(), "V".to_owned());
    [
        ManageCall::Deploy(NewVault { asset: ASSET, name, symbol, salt: B256::ZERO }),
        ManageCall::Value { total: total() },
        ManageCall::Settle { total: total() },
        ManageCall::Pause,
        ManageCall::Resume,
        ManageCall::SetCap { cap: total() },
    ]
}

fn proposal(call: &ManageCall) -> Proposal {
    let target = if matches!(call, ManageCall::Deploy(_)) { FACTORY } else { VAULT };
    let made = sample::proposal(ME, ProposalIntent::VaultManagement, sample::leg(target, call.calldata(ME)));
    Proposal { tool: ToolMeta { capability: CapabilityTier::Privileged, ..made.tool }, ..made }
}

fn judged(proposal: &Proposal) -> Result<ManagePlan, ManageRuleError> {
    let main = proposal.legs.iter().find(|leg| leg.purpose == LegPurpose::Main).unwrap();
    decode(main, proposal, &book())
}

#[test]
fn each_action_is_one_call_of_its_own_contract() {
    for call in forms() {
        let honest = proposal(&call);
        assert_eq!(judged(&honest).unwrap().call, call);
        let changed = |change: &dyn Fn(&mut Proposal)| {
            let mut changed = honest.clone();
            change(&mut changed);
            judged(&changed)
        };
        assert_eq!(changed(&|one| one.intent = ProposalIntent::Vault), Err(ManageRuleError::Beside));
        let lesser = changed(&|one| one.tool.capability = CapabilityTier::Write);
        assert_eq!(lesser.is_ok(), !call.is_privileged(), "{call:?}");
        assert_eq!(lesser.is_err(), matches!(lesser, Err(ManageRuleError::Beside)));
        let other = if honest.legs[0].to == FACTORY { VAULT } else { FACTORY };
        assert_eq!(changed(&|one| one.legs[0].to = other), Err(ManageRuleError::Elsewhere));
        let wrong: [&dyn Fn(&mut Proposal); 3] =
            [&|one| one.legs[0].value = U256::ONE, &|one| one.legs.push(one.legs[0].clone()), &|one| {
                one.recipients.push(OTHER)
            }];
        for change in wrong {
            assert_eq!(changed(change), Err(ManageRuleError::DoesMore), "{call:?}");
        }
        let out = Outflow { token: sample::token(ASSET, "T", 6), amount: U256::ONE };
        let moves = changed(&|one| one.outflows.push(out.clone()));
        assert_eq!(moves.is_ok(), matches!(call, ManageCall::Settle { .. }), "{call:?}");
        // A deployment in the name of somebody else.
        if matches!(call, ManageCall::Deploy(_)) {
            assert!(changed(&|one| one.account = OTHER).is_err());
        }
    }
}

/// A settlement with 300 that leave and 200 more that come in, and each change of that.
#[test]
fn a_settlement_moves_one_token_and_leaves_no_allowance() {
    let settle = || {
        let mut made = proposal(&ManageCall::Settle { total: total() });
        let (token, left) = (sample::token(ASSET, "T", 6), U256::from(300));
        let data = Erc20::approveCall { spender: VAULT, value: left }.abi_encode();
        made.legs.insert(0, PlanLeg { purpose: LegPurpose::Approve, ..sample::leg(ASSET, data) });
        made.outflows = vec![Outflow { token: token.clone(), amount: left }];
        let more = U256::from(200);
        made.inflows = vec![Inflow { token: token.clone(), at_least: more, expected: more, recipient: ME }];
        let (spender, kind, at_most) = (VAULT, AllowanceKind::Erc20, U256::ZERO);
        made.allowances = vec![AllowanceBound { token, spender, kind, at_most }];
        made
    };
    assert!(judged(&settle()).is_ok());
    let other = || sample::token(OTHER, "O", 6);
    let allow = |spender, value: u64| Erc20::approveCall { spender, value: U256::from(value) }.abi_encode().into();
    for (expected, change) in [
        (ManageRuleError::Flows, &(|one: &mut Proposal| one.inflows[0].token = other()) as &dyn Fn(&mut Proposal)),
        (ManageRuleError::Flows, &|one| one.inflows[0].recipient = OTHER),
        (ManageRuleError::Flows, &|one| one.inflows[0].at_least = U256::ZERO),
        (ManageRuleError::Flows, &|one| one.outflows[0].amount = U256::ZERO),
        (ManageRuleError::Flows, &|one| one.outflows.push(one.outflows[0].clone())),
        (ManageRuleError::Allowance, &|one| one.allowances[0].at_most = U256::ONE),
        (ManageRuleError::Allowance, &|one| one.allowances[0].spender = OTHER),
        (ManageRuleError::Allowance, &|one| one.legs[0].data = allow(VAULT, 301)),
        (ManageRuleError::Allowance, &|one| one.legs[0].data = allow(OTHER, 300)),
        (ManageRuleError::Allowance, &|one| one.legs[0].to = OTHER),
    ] {
        let mut changed = settle();
        change(&mut changed);
        assert_eq!(judged(&changed), Err(expected), "{changed:?}");
    }
}

/// By hand: 1,000,000 are stated. The Safe must hold as much; three units, a millionth and two, may be
/// missing as rounding, and it is 1 % more than 990,099.01.
#[test]
fn a_valuation_is_of_what_is_there() {
    let ground = |held: u64, last: u64| {
        let (safe, valuation_manager, is_made) = (ME, ME, Some(true));
        let roles = VaultRoles { safe, valuation_manager, is_made };
        let (held, last, explained) = (U256::from(held), U256::from(last), U256::MAX);
        ManageGround::Vault(ValuedVault { asset: ASSET, held, last, explained, roles })
    };
    for call in [ManageCall::Value { total: total() }, ManageCall::Settle { total: total() }] {
        let of = |ground: Option<&ManageGround>| -> Vec<RuleName> {
            faults(&proposal(&call), &book(), ground, Some(&[])).into_iter().map(|fault| fault.rule).collect()
        };
        assert_eq!(of(Some(&ground(1_000_000, 1))), []);
        assert_eq!(of(Some(&ground(999_999, 1))), [RuleName::VaultValuation]);
        assert_eq!(of(None), [RuleName::Calldata]);
        let unread = faults(&proposal(&call), &book(), Some(&ground(1_000_000, 1)), None);
        assert_eq!(unread.len(), 1, "what other vaults' depositors have is not known");
        let plan = judged(&proposal(&call)).unwrap();
        assert_eq!(ground(0, 1_000_003).asks(&plan), None);
        assert_eq!(ground(0, 1_000_004).asks(&plan), Some(CheckReason::ValuedLow));
        assert_eq!(ground(0, 990_100).asks(&plan), None);
        assert_eq!(ground(0, 990_099).asks(&plan), Some(CheckReason::ValuedHigh));
        assert_eq!(ground(0, 0).asks(&plan), Some(CheckReason::ValuedHigh), "out of nothing");
        // A fifth of a million is another vault's.
        let other = |asset, vault| VaultHolding {
            vault,
            asset,
            shares: U256::ZERO,
            decimals: None,
            pays: Ok(U256::ZERO),
            is_partial: false,
            worth: U256::ZERO,
            requests: None,
            owed: U256::from(200_000),
            only_claims: false,
        };
        let with = |held: u64, one| faults(&proposal(&call), &book(), Some(&ground(held, 1)), Some(&[one])).len();
        assert_eq!(with(1_200_000, other(ASSET, OTHER)), 0);
        assert_eq!(with(1_199_999, other(ASSET, OTHER)), 1);
        assert_eq!(with(1_000_000, other(OTHER, OTHER)), 0, "of another token");
        assert_eq!(with(1_000_000, other(ASSET, VAULT)), 0, "the vault itself");
    }
    for call in [ManageCall::Pause, ManageCall::Resume, ManageCall::SetCap { cap: total() }] {
        assert_eq!(faults(&proposal(&call), &book(), None, Some(&[])), []);
        assert_eq!(faults(&proposal(&call), &book(), None, None), []);
    }
    let mut foreign = proposal(&ManageCall::Settle { total: total() });
    foreign.outflows = vec![Outflow { token: sample::token(OTHER, "O", 6), amount: U256::ONE }];
    let found = faults(&foreign, &book(), Some(&ground(1_000_000, 1)), Some(&[]));
    assert_eq!(found.into_iter().map(|fault| fault.rule).collect::<Vec<_>>(), [RuleName::Calldata]);
}

/// A vault of somebody else, and one whose answers nobody vouches for.
#[test]
fn only_a_vault_of_the_accounts_own_is_valued() {
    let (asset, held, last) = (ASSET, U256::from(2_000_000), total());
    let of = |safe, valuation_manager, is_made| {
        let roles = VaultRoles { safe, valuation_manager, is_made };
        let ground = ManageGround::Vault(ValuedVault { asset, last, held, explained: last, roles });
        faults(&proposal(&ManageCall::Value { total: total() }), &book(), Some(&ground), Some(&[])).len()
    };
    assert_eq!([of(ME, ME, Some(true)), of(ME, ME, None)], [0, 0]);
    assert_eq!([of(OTHER, ME, Some(true)), of(ME, OTHER, Some(true)), of(ME, ME, Some(false))], [1, 1, 1]);
}

/// By hand: a share that was worth a token at first is worth 1.05, and the market's index rose by 10 %. 1,000,000 can be
/// 1,000,000 * 1.1 / 1.05 = 1,047,619, so that rises of 1 % end once the shares have earned as much as the market paid. A supply of
/// 110,000 contains 10,000 of interest.
#[test]
fn many_small_rises_end_at_what_the_market_paid() {
    let raised = RAY / U256::from(10) * U256::from(11);
    let of = |share: u64, supplied: u64, index| {
        explained(total(), [U256::from(share), U256::from(1_000_000)], U256::from(supplied), index)
    };
    let large = 1_000_000_000;
    assert_eq!(of(1_050_000, large, raised), U256::from(1_047_619));
    assert_eq!(of(1_050_000, 110_000, raised), U256::from(1_010_000), "the supply contains no more");
    assert_eq!(of(1_050_000, 0, raised), total(), "nothing is supplied");
    assert_eq!(of(1_100_000, large, raised), total());
    assert_eq!(of(1_200_000, large, raised), total(), "the operator has decided about more");
    assert_eq!(of(1_000_000, large, RAY), total(), "a market that has paid nothing");
    assert_eq!((of(0, large, raised), of(1_000_000, large, U256::ZERO)), (total(), total()), "nonsense");
    let beyond = explained(U256::MAX, [U256::ONE, U256::MAX], U256::MAX, U256::MAX);
    assert_eq!(beyond, U256::MAX, "what is too large to compute explains no more than what was");
    let asks = |explained: u64, is_made| {
        let roles = VaultRoles { safe: ME, valuation_manager: ME, is_made };
        let (last, held, explained) = (U256::from(995_000), U256::MAX, U256::from(explained));
        let ground = ManageGround::Vault(ValuedVault { asset: ASSET, last, held, explained, roles });
        ground.asks(&judged(&proposal(&ManageCall::Value { total: total() })).unwrap())
    };
    assert_eq!([asks(999_999, Some(true)), asks(999_998, Some(true))], [None, Some(CheckReason::ValuedHigh)]);
    assert_eq!(asks(1_000_000, None), Some(CheckReason::OnlyClaimed), "no factory vouches for it");
}

#[test]
fn a_vault_is_deployed_by_the_shipped_factory_alone() {
    let made = proposal(&forms()[0]);
    let of = |ground: Option<ManageGround>| faults(&made, &book(), ground.as_ref(), Some(&[])).len();
    let mut unlisted = made.clone();
    let (name, symbol) = ("V".to_owned(), "V".to_owned());
    let other = ManageCall::Deploy(NewVault { asset: OTHER, name, symbol, salt: B256::ZERO });
    unlisted.legs[0].data = other.calldata(ME);
    let honest = ManageGround::Factory(FACTORY_CODE);
    assert_eq!(faults(&unlisted, &book(), Some(&honest), Some(&[])).len(), 1, "a token that is not listed");
    assert_eq!(of(Some(ManageGround::Factory(FACTORY_CODE))), 0);
    assert_eq!(of(Some(ManageGround::Factory(keccak256([])))), 1, "no code");
    assert_eq!(of(None), 1);
}

#[test]
fn an_action_is_proven_by_the_event_of_its_contract() {
    let log = |address, data| Log { address, data };
    let (account, old) = (ME, U256::ZERO);
    let told = |call: &ManageCall| match call {
        ManageCall::Deploy(_) => LagoonFactory::ProxyDeployed { proxy: VAULT, deployer: ME }.encode_log_data(),
        ManageCall::Value { total } => LagoonVault::NewTotalAssetsUpdated { totalAssets: *total }.encode_log_data(),
        ManageCall::Settle { total } => LagoonVault::TotalAssetsUpdated { totalAssets: *total }.encode_log_data(),
        ManageCall::Pause => LagoonVault::Paused { account }.encode_log_data(),
        ManageCall::Resume => LagoonVault::Unpaused { account }.encode_log_data(),
        ManageCall::SetCap { cap } => {
            LagoonVault::MaxCapUpdated { previousMaxCap: old, maxCap: *cap }.encode_log_data()
        }
    };
    for call in forms() {
        let made = proposal(&call);
        let missing = |logs: &[Log]| unproven(&made, &book(), &logs.iter().collect::<Vec<_>>());
        assert_eq!(missing(&[log(made.legs[0].to, told(&call))]), None, "{call:?}");
        assert!(missing(&[]).is_some() && missing(&[log(OTHER, told(&call))]).is_some(), "{call:?}");
        for other in forms().iter().filter(|other| **other != call) {
            assert!(missing(&[log(made.legs[0].to, told(other))]).is_some(), "{call:?} {other:?}");
        }
    }
}

/// A stop lets a pause through that moves nothing.
#[test]
fn only_a_quiet_pause_passes_a_stop() {
    let preview = crate::approval::model::preview(proposal(&ManageCall::Pause), 1, 0);
    let simulated = |class| SimulatedEffects { class, ..preview.simulated.clone() };
    let quiet = simulated(ActionClass::ReadOnly);
    for call in forms() {
        assert_eq!(only_pauses(&proposal(&call), Some(&quiet)), call == ManageCall::Pause, "{call:?}");
    }
    let pause = proposal(&ManageCall::Pause);
    for class in [ActionClass::NewPosition, ActionClass::DecreasePosition, ActionClass::ClosePosition] {
        assert!(!only_pauses(&pause, Some(&simulated(class))), "{class:?}");
    }
    assert!(!only_pauses(&pause, None), "it was not simulated");
    let other = Proposal { intent: ProposalIntent::Vault, ..pause.clone() };
    assert!(!only_pauses(&other, Some(&quiet)));
    let mut more = pause;
    more.legs.push(more.legs[0].clone());
    assert!(!only_pauses(&more, Some(&quiet)));
}
