//! Initialisation, ownership and upgrades of the registries.

use alloy::primitives::{B256, Bytes, b256};
use alloy::sol_types::SolValue;

use super::*;
use crate::actors::{ActorRole, Actors};
use bardo_abi::erc8004::{ReputationRegistry, ValidationRegistry};

/// Slot of a proxy's implementation, from ERC-1967.
const IMPLEMENTATION: B256 = b256!("0x360894a13ba1a3210667c828492db98dca3e2076cc3735a920a3ca505d382bbc");

alloy::sol! {
    #[derive(Debug)]
    interface Upgradeable {
        function owner() external view returns (address);
        function proxiableUUID() external view returns (bytes32);
        function transferOwnership(address newOwner) external;
        function renounceOwnership() external;
        function upgradeToAndCall(address newImplementation, bytes data) external payable;
        function getVersion() external pure returns (string);
        function getIdentityRegistry() external view returns (address);
        function name() external view returns (string);
        function symbol() external view returns (string);
        function eip712Domain() external view returns (bytes1 fields, string name, string version, uint256 chainId, address verifyingContract, bytes32 salt, uint256[] extensions);
    }
}

fn implementation(field: &Field, proxy: Address) -> Address {
    Address::from_word(field.chain.state().storage_at(proxy, IMPLEMENTATION.into()).into())
}

#[test]
fn the_registries_are_initialised_once_and_linked() {
    let mut field = Field::new();
    let treasury = Actors::new().unwrap().address(ActorRole::Treasury);
    let again = Errors::InvalidInitialization {};
    failed(field.identity(OWNER, IdentityRegistry::initializeCall {}), again);
    let relink = ReputationRegistry::initializeCall { identityRegistry_: OWNER };
    failed(field.reputation(OWNER, relink.clone()), Errors::InvalidInitialization {});
    let relink_validation = ValidationRegistry::initializeCall { identityRegistry_: OWNER };
    failed(field.validation(OWNER, relink_validation.clone()), Errors::InvalidInitialization {});
    let bare = implementation(&field, field.identity);
    failed(field.call(OWNER, bare, IdentityRegistry::initializeCall {}), Errors::InvalidInitialization {});
    for (proxy, call) in [(field.reputation, relink.abi_encode()), (field.validation, relink_validation.abi_encode())] {
        let bare = implementation(&field, proxy);
        failed(field.send(OWNER, bare, call.into()), Errors::InvalidInitialization {});
        assert_eq!(field.read(proxy, Upgradeable::getIdentityRegistryCall {}), Ok(field.identity));
    }
    for proxy in [field.identity, field.reputation, field.validation] {
        assert_eq!(field.read(proxy, Upgradeable::ownerCall {}), Ok(treasury));
        assert_eq!(field.read(proxy, Upgradeable::getVersionCall {}), Ok("2.0.0".to_owned()));
    }
    assert_eq!(field.read(field.identity, Upgradeable::nameCall {}), Ok("AgentIdentity".to_owned()));
    assert_eq!(field.read(field.identity, Upgradeable::symbolCall {}), Ok("AGENT".to_owned()));
    let domain = field.read(field.identity, Upgradeable::eip712DomainCall {}).unwrap();
    assert_eq!((domain.name.as_str(), domain.version.as_str()), ("ERC8004IdentityRegistry", "1"));
    assert_eq!((domain.chainId, domain.verifyingContract), (U256::from(31_337), field.identity));
}

#[test]
fn a_registry_refuses_the_zero_address_as_its_identity_registry() {
    let mut field = Field::new();
    let arguments = (implementation(&field, field.reputation), Bytes::new()).abi_encode_params();
    let code = crate::contracts::BundledContract::ERC1967Proxy.creation(&arguments).unwrap();
    let salted = [B256::repeat_byte(7).as_slice(), code.as_ref()].concat();
    let proxy = crate::contracts::DEPLOYMENT_PROXY.create2_from_code(B256::repeat_byte(7), code);
    field.send(OWNER, crate::contracts::DEPLOYMENT_PROXY, salted.into()).unwrap();
    let nowhere = ReputationRegistry::initializeCall { identityRegistry_: Address::ZERO };
    rejected(field.call(OWNER, proxy, nowhere), "the identity registry is the zero address");
}

#[test]
fn only_the_owner_upgrades_and_the_data_stay() {
    let mut field = Field::new();
    let treasury = Actors::new().unwrap().address(ActorRole::Treasury);
    let agent = field.register(OWNER, "ipfs://kept");
    let upgrade = |to: Address| Upgradeable::upgradeToAndCallCall { newImplementation: to, data: Bytes::new() };
    let (identity, reputation) = (implementation(&field, field.identity), implementation(&field, field.reputation));
    failed(field.identity(OWNER, upgrade(identity)), Errors::OwnableUnauthorizedAccount { account: OWNER });
    // A contract that cannot be upgraded to, and an address without code.
    failed(
        field.identity(treasury, upgrade(field.identity)),
        Errors::ERC1967InvalidImplementation { implementation: field.identity },
    );
    assert!(field.identity(treasury, upgrade(Address::repeat_byte(0x99))).is_err());
    failed(field.call(treasury, identity, upgrade(identity)), Errors::UUPSUnauthorizedCallContext {});
    failed(field.read(field.identity, Upgradeable::proxiableUUIDCall {}), Errors::UUPSUnauthorizedCallContext {});
    assert_eq!(field.read(identity, Upgradeable::proxiableUUIDCall {}), Ok(IMPLEMENTATION));
    let logs = field.identity(treasury, upgrade(identity)).unwrap();
    assert_eq!(logs[0].topics()[0], alloy::primitives::keccak256("Upgraded(address)"));
    assert_eq!(field.owner(agent), OWNER);
    field.reputation(treasury, upgrade(reputation)).unwrap();

    let to_nobody = Upgradeable::transferOwnershipCall { newOwner: Address::ZERO };
    failed(field.identity(treasury, to_nobody), Errors::OwnableInvalidOwner { owner: Address::ZERO });
    failed(
        field.identity(OWNER, Upgradeable::renounceOwnershipCall {}),
        Errors::OwnableUnauthorizedAccount { account: OWNER },
    );
    field.identity(treasury, Upgradeable::transferOwnershipCall { newOwner: OWNER }).unwrap();
    failed(field.identity(treasury, upgrade(identity)), Errors::OwnableUnauthorizedAccount { account: treasury });
    field.identity(OWNER, Upgradeable::renounceOwnershipCall {}).unwrap();
    assert_eq!(field.read(field.identity, Upgradeable::ownerCall {}), Ok(Address::ZERO));
    failed(field.identity(OWNER, upgrade(identity)), Errors::OwnableUnauthorizedAccount { account: OWNER });
}
