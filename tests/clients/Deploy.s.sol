// SPDX-License-Identifier: MIT
pragma solidity ^0.8.30;

interface Vm {
    function startBroadcast(address signer) external;
    function stopBroadcast() external;
}

contract Counter {
    uint256 public count;

    event Counted(uint256 count);

    function add(uint256 more) external {
        require(more > 0, "nothing to add");
        count += more;
        emit Counted(count);
    }
}

/// Deploys a counter and counts, in the name of an account whose key is the node's.
contract Deploy {
    Vm private constant VM = Vm(address(uint160(uint256(keccak256("hevm cheat code")))));
    bool public constant IS_SCRIPT = true;

    function run(address signer) external {
        VM.startBroadcast(signer);
        Counter counter = new Counter();
        counter.add(3);
        counter.add(4);
        VM.stopBroadcast();
    }
}
