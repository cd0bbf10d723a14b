//! Calls by which an account manages an asynchronous vault of Lagoon's interface in closed forms. The account is everything in one:
//! owner, valuation manager, receiver of fees, and the Safe that holds what the vault is worth.

use alloy::primitives::{Address, B256, Bytes, U256, b256};
use alloy::sol_types::SolCall;

use bardo_abi::erc7540::{LagoonFactory, LagoonInit, LagoonVault};

/// Delay before an owner may change a new vault's code, in seconds: a day, the least that Lagoon's factory takes.
const UPGRADE_DELAY: u64 = 86_400;

/// Keccak-256 of the code of the factory that is shipped, which contains the code of the vaults that it makes. A factory with another
/// code makes no vault.
pub const FACTORY_CODE: B256 = b256!("47f062fbeb5e232732e0321de42e1a2475c7e323d410b425e4414173c0579f7e");

/// Longest name and symbol of a new vault, in characters.
pub const LONGEST: [usize; 2] = [64, 16];

/// Error for calldata that is none of the closed forms.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ManageCallError {
    /// The function is none of these.
    #[error("not a deployment, valuation, settlement, pause, resumption or cap of a vault")]
    Unknown,
    /// The calldata has another encoding than its arguments, or arguments that the form does not have.
    #[error("the call is not the closed form: everything belongs to the account, without fees and whitelist")]
    NotCanonical,
    /// The amount is none of a token.
    #[error("the amount is not one of a token")]
    Amount,
}

/// Vault to be deployed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewVault {
    /// Token that it takes.
    pub asset: Address,
    /// Name of the shares: printable ASCII.
    pub name: String,
    /// Symbol of the shares: printable ASCII.
    pub symbol: String,
    /// Number that makes the address another one.
    pub salt: B256,
}

/// Call by which an account manages a vault. Amounts are in raw units of the vault's token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ManageCall {
    /// Deploys a vault through the factory.
    Deploy(NewVault),
    /// States what the vault is worth, for the next settlement.
    Value {
        /// Worth of the vault.
        total: U256,
    },
    /// Settles the requests at the stated worth.
    Settle {
        /// Worth of the vault.
        total: U256,
    },
    /// Pauses the vault.
    Pause,
    /// Ends the pause.
    Resume,
    /// Sets the most that the vault takes.
    SetCap {
        /// Most that the vault takes in all.
        cap: U256,
    },
}

/// Returns true for a name that is shown as it is, between quotation marks.
pub fn is_plain(text: &str, longest: usize) -> bool {
    (1..=longest).contains(&text.len()) && text.chars().all(|one| one == ' ' || one.is_ascii_graphic() && one != '"')
}

impl ManageCall {
    /// Returns true for a call that only a privileged tool makes.
    pub fn is_privileged(&self) -> bool {
        match self {
            Self::Deploy(_) | Self::Pause | Self::Resume | Self::SetCap { .. } => true,
            Self::Value { .. } | Self::Settle { .. } => false,
        }
    }

    /// Worth of the vault that the call states.
    pub fn total(&self) -> Option<U256> {
        match self {
            Self::Value { total } | Self::Settle { total } => Some(*total),
            Self::Deploy(_) | Self::Pause | Self::Resume | Self::SetCap { .. } => None,
        }
    }

    /// Calldata by which `account` makes the call.
    pub fn calldata(&self, account: Address) -> Bytes {
        let data = match self {
            Self::Deploy(new) => LagoonFactory::createVaultProxyCall {
                logic: Address::ZERO,
                initialOwner: account,
                initialDelay: U256::from(UPGRADE_DELAY),
                init: LagoonInit {
                    underlying: new.asset,
                    name: new.name.clone(),
                    symbol: new.symbol.clone(),
                    safe: account,
                    whitelistManager: account,
                    valuationManager: account,
                    admin: account,
                    feeReceiver: account,
                    managementRate: 0,
                    performanceRate: 0,
                    enableWhitelist: false,
                    rateUpdateCooldown: U256::ZERO,
                },
                salt: new.salt,
            }
            .abi_encode(),
            Self::Value { total } => LagoonVault::updateNewTotalAssetsCall { newTotalAssets: *total }.abi_encode(),
            Self::Settle { total } => LagoonVault::settleDepositCall { newTotalAssets: *total }.abi_encode(),
            Self::Pause => LagoonVault::pauseCall {}.abi_encode(),
            Self::Resume => LagoonVault::unpauseCall {}.abi_encode(),
            Self::SetCap { cap } => LagoonVault::updateMaxCapCall { maxCap: *cap }.abi_encode(),
        };
        data.into()
    }

    /// Decodes calldata by which `account` manages a vault.
    ///
    /// # Errors
    /// [`ManageCallError`] unless it is exactly one of the closed forms.
    pub fn decode(data: &[u8], account: Address) -> Result<Self, ManageCallError> {
        let selector: [u8; 4] = data.get(..4).and_then(|four| four.try_into().ok()).ok_or(ManageCallError::Unknown)?;
        let unreadable = |_| ManageCallError::NotCanonical;
        let found = match selector {
            LagoonFactory::createVaultProxyCall::SELECTOR => {
                let call = LagoonFactory::createVaultProxyCall::abi_decode_validate(data).map_err(unreadable)?;
                let LagoonInit { underlying: asset, name, symbol, .. } = call.init;
                let [long_name, long_symbol] = LONGEST;
                if !is_plain(&name, long_name) || !is_plain(&symbol, long_symbol) {
                    return Err(ManageCallError::NotCanonical);
                }
                Self::Deploy(NewVault { asset, name, symbol, salt: call.salt })
            }
            LagoonVault::updateNewTotalAssetsCall::SELECTOR => {
                let call = LagoonVault::updateNewTotalAssetsCall::abi_decode_validate(data).map_err(unreadable)?;
                Self::Value { total: call.newTotalAssets }
            }
            LagoonVault::settleDepositCall::SELECTOR => {
                let call = LagoonVault::settleDepositCall::abi_decode_validate(data).map_err(unreadable)?;
                Self::Settle { total: call.newTotalAssets }
            }
            LagoonVault::pauseCall::SELECTOR => Self::Pause,
            LagoonVault::unpauseCall::SELECTOR => Self::Resume,
            LagoonVault::updateMaxCapCall::SELECTOR => {
                let call = LagoonVault::updateMaxCapCall::abi_decode_validate(data).map_err(unreadable)?;
                if call.maxCap.bit_len() > 128 {
                    return Err(ManageCallError::Amount);
                }
                Self::SetCap { cap: call.maxCap }
            }
            _ => return Err(ManageCallError::Unknown),
        };
        if found.total().is_some_and(|total| total.bit_len() > 128) {
            return Err(ManageCallError::Amount);
        }
        // One encoding for each call, so that what is shown is all that is signed.
        if found.calldata(account).as_ref() != data { Err(ManageCallError::NotCanonical) } else { Ok(found) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ME: Address = Address::repeat_byte(0xa1);
    const OTHER: Address = Address::repeat_byte(0xa2);

    fn forms() -> [ManageCall; 6] {
        let (name, symbol) = ("My vault".to_owned(), "mV".to_owned());
        let total = U256::from(7);
        [
            ManageCall::Deploy(NewVault { asset: OTHER, name, symbol, salt: B256::repeat_byte(3) }),
            ManageCall::Value { total },
            ManageCall::Settle { total },
            ManageCall::Pause,
            ManageCall::Resume,
            ManageCall::SetCap { cap: total },
        ]
    }

    #[test]
    fn each_form_is_read_back_and_nothing_else() {
        for form in forms() {
            let data = form.calldata(ME);
            assert_eq!(ManageCall::decode(&data, ME), Ok(form.clone()));
            let longer = [data.as_ref(), &[0; 32]].concat();
            assert_eq!(ManageCall::decode(&longer, ME), Err(ManageCallError::NotCanonical), "{form:?}");
        }
        for amount in [U256::MAX, U256::from(1) << 128] {
            for form in [
                ManageCall::Value { total: amount },
                ManageCall::Settle { total: amount },
                ManageCall::SetCap { cap: amount },
            ] {
                assert_eq!(ManageCall::decode(&form.calldata(ME), ME), Err(ManageCallError::Amount), "{form:?}");
            }
        }
        // `transferOwnership(address)`, as block explorers list it, has no form here.
        let call = [&alloy::primitives::hex!("f2fde38b")[..], &[0; 32]].concat();
        assert_eq!(ManageCall::decode(&call, ME), Err(ManageCallError::Unknown));
    }

    /// The shipped creation code ends with the code of the contract, after the constructor's `return` and `invalid`.
    #[test]
    fn the_factory_is_the_one_that_is_shipped() {
        let creation = include_str!("../../../../assets/contracts/AsyncVaultFactory.hex").trim();
        let creation = alloy::primitives::hex::decode(creation).unwrap();
        let at = creation.windows(2).position(|two| two == [0xf3, 0xfe]).unwrap();
        assert_eq!(alloy::primitives::keccak256(&creation[at + 2..]), FACTORY_CODE);
    }

    /// Somebody else as any of a new vault's roles, fees, a whitelist, another logic, or a name that hides something.
    #[test]
    fn a_new_vault_is_the_accounts_alone() {
        let data = forms()[0].calldata(ME);
        assert_eq!(ManageCall::decode(&data, OTHER), Err(ManageCallError::NotCanonical));
        let honest = LagoonFactory::createVaultProxyCall::abi_decode(&data).unwrap();
        let changes: [fn(&mut LagoonFactory::createVaultProxyCall); 13] = [
            |one| one.logic = OTHER,
            |one| one.initialOwner = OTHER,
            |one| one.initialDelay = U256::ZERO,
            |one| one.init.safe = OTHER,
            |one| one.init.whitelistManager = OTHER,
            |one| one.init.valuationManager = OTHER,
            |one| one.init.admin = OTHER,
            |one| one.init.feeReceiver = OTHER,
            |one| one.init.performanceRate = 1,
            |one| one.init.enableWhitelist = true,
            |one| one.init.name = "a\u{202e}b".to_owned(),
            |one| one.init.symbol = String::new(),
            |one| one.init.name = "V\" of USDC, approved".to_owned(),
        ];
        for (at, change) in changes.into_iter().enumerate() {
            let mut changed = honest.clone();
            change(&mut changed);
            assert_eq!(ManageCall::decode(&changed.abi_encode(), ME), Err(ManageCallError::NotCanonical), "{at}");
        }
    }
}
