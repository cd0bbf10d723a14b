//! Hooks of Bardo's own, ready to be deployed: sources, creation codes, and the addresses that state their permissions.
//!
//! They are deployed through the deterministic deployment proxy, which has the same address on most networks: the address follows
//! from salt and creation code alone, so a salt can be found whose address ends in the right bits, and everybody can check what is
//! there.

use alloy::primitives::{Address, B256, Bytes, U256, address, hex, keccak256};
use alloy::sol_types::SolValue as _;

use super::permission::{Permission, bits_of};

/// Deterministic deployment proxy: CREATE2 of the data after the salt in the first word.
pub const DEPLOYMENT_PROXY: Address = address!("0x4e59b44847b379578588920cA78FbF26c0B4956C");

/// Compiler of the templates.
pub const COMPILER: &str = "solc 0.8.30";

/// Settings of the compiler.
pub const COMPILER_SETTINGS: &str = "optimizer on with 200 runs, EVM version cancun, no metadata hash";

/// Number of salts that are tried: one in 16,384 fits.
const MOST_SALTS: u64 = 4_000_000;

/// A hook that can be deployed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum HookTemplate {
    /// Counts the swaps of its pools.
    Counting,
    /// Lets nobody swap before a time.
    Opening,
}

/// A template with its constructor's arguments beside the pool manager.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HookDeployment {
    /// [`HookTemplate::Counting`].
    Counting,
    /// [`HookTemplate::Opening`].
    Opening {
        /// First second in which pools of the hook trade, since the Unix epoch.
        opens_at: u64,
    },
}

impl HookTemplate {
    /// All templates, in the order of a list.
    pub const ALL: [Self; 2] = [Self::Counting, Self::Opening];

    /// Name of the template.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Counting => "counting",
            Self::Opening => "opening",
        }
    }

    /// Template of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|one| one.name().eq_ignore_ascii_case(name.trim()))
    }

    /// Behaviour of the hook, in one sentence.
    pub const fn description(self) -> &'static str {
        match self {
            Self::Counting => "Counts the swaps of each of its pools and changes nothing.",
            Self::Opening => {
                "Lets nobody swap in its pools before a time that is fixed at deployment; liquidity comes and goes at any time."
            }
        }
    }

    /// Permissions that its address must state, and no others.
    pub const fn permissions(self) -> &'static [Permission] {
        match self {
            Self::Counting => &[Permission::AfterSwap],
            Self::Opening => &[Permission::BeforeSwap],
        }
    }

    /// The same as bits.
    pub fn bits(self) -> u16 {
        self.permissions().iter().fold(0, |bits, one| bits | one.bit())
    }

    /// Name of the contract.
    pub const fn contract(self) -> &'static str {
        match self {
            Self::Counting => "CountingHook",
            Self::Opening => "OpeningHook",
        }
    }

    /// Constructor, as Solidity writes it.
    pub const fn constructor(self) -> &'static str {
        match self {
            Self::Counting => "constructor(address manager)",
            Self::Opening => "constructor(address manager, uint256 opensAt)",
        }
    }

    /// Solidity source, one file without imports.
    pub const fn source(self) -> &'static str {
        match self {
            Self::Counting => include_str!("../../../../../assets/contracts/src/CountingHook.sol"),
            Self::Opening => include_str!("../../../../../assets/contracts/src/OpeningHook.sol"),
        }
    }

    /// Creation code without arguments. Empty if the bundled file were damaged, which a test excludes.
    pub fn code(self) -> Bytes {
        let file = match self {
            Self::Counting => include_str!("../../../../../assets/contracts/CountingHook.hex"),
            Self::Opening => include_str!("../../../../../assets/contracts/OpeningHook.hex"),
        };
        hex::decode(file.trim_end()).unwrap_or_default().into()
    }
}

impl HookDeployment {
    /// Template of the deployment.
    pub const fn template(self) -> HookTemplate {
        match self {
            Self::Counting => HookTemplate::Counting,
            Self::Opening { .. } => HookTemplate::Opening,
        }
    }

    /// Creation code with the arguments for this pool manager.
    pub fn creation(self, manager: Address) -> Bytes {
        let arguments = match self {
            Self::Counting => (manager,).abi_encode_params(),
            Self::Opening { opens_at } => (manager, U256::from(opens_at)).abi_encode_params(),
        };
        [self.template().code().as_ref(), &arguments].concat().into()
    }

    /// Reads a creation code, byte by byte: one of the templates with arguments for this pool manager; `None` for anything else.
    pub fn read(creation: &[u8], manager: Address) -> Option<Self> {
        HookTemplate::ALL.into_iter().find_map(|template| {
            let arguments = creation.strip_prefix(template.code().as_ref())?;
            let found = match template {
                HookTemplate::Counting => Self::Counting,
                HookTemplate::Opening => {
                    let (_, opens_at) = <(Address, U256)>::abi_decode_params(arguments).ok()?;
                    Self::Opening { opens_at: u64::try_from(opens_at).ok()? }
                }
            };
            (found.creation(manager).as_ref() == creation).then_some(found)
        })
    }

    /// Lowest salt from `first` on whose address states exactly the template's permissions, with that address; `None` if none of
    /// four million does.
    pub fn mine(self, manager: Address, first: U256) -> Option<(B256, Address)> {
        let code = keccak256(self.creation(manager));
        let bits = self.template().bits();
        (0..MOST_SALTS).find_map(|number| {
            let salt = B256::from(first.wrapping_add(U256::from(number)));
            let address = DEPLOYMENT_PROXY.create2(salt, code);
            (bits_of(address) == bits).then_some((salt, address))
        })
    }

    /// Calldata for the deployment proxy.
    pub fn calldata(self, manager: Address, salt: B256) -> Bytes {
        [salt.as_slice(), self.creation(manager).as_ref()].concat().into()
    }

    /// Reads calldata for the deployment proxy: the deployment, its salt, and the address that comes of it; `None` unless it is a
    /// template byte by byte, at an address that states exactly its permissions.
    pub fn of_calldata(data: &[u8], manager: Address) -> Option<(Self, B256, Address)> {
        let (salt, creation) = data.split_at_checked(32)?;
        let found = Self::read(creation, manager)?;
        let salt = B256::try_from(salt).ok()?;
        let address = DEPLOYMENT_PROXY.create2(salt, keccak256(creation));
        (bits_of(address) == found.template().bits()).then_some((found, salt, address))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MANAGER: Address = address!("0x000000000004444c5dc75cB358380D2e3dE08A90");

    fn deployments() -> [HookDeployment; 2] {
        [HookDeployment::Counting, HookDeployment::Opening { opens_at: 1_800_000_000 }]
    }

    #[test]
    fn a_template_is_recognised_byte_by_byte_and_nothing_else_is() {
        for deployment in deployments() {
            assert!(deployment.template().code().len() > 100);
            let creation = deployment.creation(MANAGER).to_vec();
            assert_eq!(HookDeployment::read(&creation, MANAGER), Some(deployment));
            assert_eq!(HookDeployment::read(&creation, Address::repeat_byte(1)), None);
            for at in [0, creation.len() / 2, creation.len() - 40] {
                let mut changed = creation.clone();
                changed[at] ^= 1;
                assert_eq!(HookDeployment::read(&changed, MANAGER), None, "byte {at}");
            }
            assert_eq!(HookDeployment::read(&[&creation[..], &[0]].concat(), MANAGER), None);
        }
    }

    #[test]
    fn a_mined_address_states_the_permissions_and_another_salt_is_refused() {
        for deployment in deployments() {
            let (salt, address) = deployment.mine(MANAGER, U256::from(77)).unwrap();
            let [.., high, low] = address.into_array();
            // By hand: afterSwap is bit 6, beforeSwap bit 7.
            let expected = if deployment == HookDeployment::Counting { 0x40 } else { 0x80 };
            assert_eq!(u16::from_be_bytes([high, low]) & 0x3fff, expected);
            let data = deployment.calldata(MANAGER, salt);
            assert_eq!(HookDeployment::of_calldata(&data, MANAGER), Some((deployment, salt, address)));
            let other = deployment.calldata(MANAGER, B256::from(U256::from_be_bytes(salt.0) + U256::ONE));
            assert_eq!(HookDeployment::of_calldata(&other, MANAGER), None);
        }
    }
}
