// SPDX-License-Identifier: MIT OR Apache-2.0
pragma solidity 0.8.30;

// The parts of the Ethereum Name Service that a lookup of an address reads, for tests on the devnet: registry, resolver and
// reverse registrar, with the interfaces of EIP-137 and EIP-181 and the authorisation of ENS's own contracts. Left out:
// registrars of names, operators, time to live, wildcard and off-chain resolution.

/// Registry of names by their namehash: owner and resolver of each.
contract EnsRegistry {
    struct Record {
        address owner;
        address resolver;
    }

    error NotOwner(bytes32 node);

    event NewOwner(bytes32 indexed node, bytes32 indexed label, address owner);
    event NewResolver(bytes32 indexed node, address resolver);

    mapping(bytes32 node => Record) private records;

    constructor() {
        records[bytes32(0)].owner = msg.sender;
    }

    modifier onlyOwner(bytes32 node) {
        require(records[node].owner == msg.sender, NotOwner(node));
        _;
    }

    function setSubnodeOwner(bytes32 node, bytes32 label, address owner_) external onlyOwner(node) returns (bytes32 subnode) {
        subnode = keccak256(abi.encodePacked(node, label));
        records[subnode].owner = owner_;
        emit NewOwner(node, label, owner_);
    }

    function setResolver(bytes32 node, address resolver_) external onlyOwner(node) {
        records[node].resolver = resolver_;
        emit NewResolver(node, resolver_);
    }

    function owner(bytes32 node) external view returns (address) {
        return records[node].owner;
    }

    function resolver(bytes32 node) external view returns (address) {
        return records[node].resolver;
    }
}

/// Resolver: addresses and names that the owners of the nodes set.
contract EnsResolver {
    error NotOwner(bytes32 node);

    event AddrChanged(bytes32 indexed node, address a);
    event NameChanged(bytes32 indexed node, string name);

    EnsRegistry private immutable registry;
    mapping(bytes32 node => address) private addresses;
    mapping(bytes32 node => string) private names;

    constructor(EnsRegistry registry_) {
        registry = registry_;
    }

    modifier authorised(bytes32 node) {
        require(registry.owner(node) == msg.sender, NotOwner(node));
        _;
    }

    function setAddr(bytes32 node, address a) external authorised(node) {
        addresses[node] = a;
        emit AddrChanged(node, a);
    }

    function setName(bytes32 node, string calldata name_) external authorised(node) {
        names[node] = name_;
        emit NameChanged(node, name_);
    }

    function addr(bytes32 node) external view returns (address) {
        return addresses[node];
    }

    function name(bytes32 node) external view returns (string memory) {
        return names[node];
    }
}

/// Registrar of `addr.reverse`: every account sets the name that it claims to have.
contract EnsReverseRegistrar {
    // namehash of addr.reverse
    bytes32 private constant REVERSE_NODE = 0x91d1777781884d03a6757a803996e38de2a42967fb37eeaca72729271025a9e2;

    EnsRegistry private immutable registry;
    EnsResolver private immutable resolver;

    constructor(EnsRegistry registry_, EnsResolver resolver_) {
        registry = registry_;
        resolver = resolver_;
    }

    function setName(string calldata name_) external returns (bytes32 node) {
        node = registry.setSubnodeOwner(REVERSE_NODE, keccak256(hexOf(msg.sender)), address(this));
        registry.setResolver(node, address(resolver));
        resolver.setName(node, name_);
    }

    /// The address as 40 digits in lower case, without a prefix.
    function hexOf(address account) private pure returns (bytes memory text) {
        text = new bytes(40);
        bytes16 digits = "0123456789abcdef";
        uint160 value = uint160(account);
        for (uint256 i = 40; i > 0; i--) {
            text[i - 1] = digits[value & 0xf];
            value >>= 4;
        }
    }
}
