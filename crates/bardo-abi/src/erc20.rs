//! Tokens: ERC-20 with metadata, wrapped ether, and the open minting of the devnet's tokens.

alloy::sol! {
    /// ERC-20 with metadata, <https://eips.ethereum.org/EIPS/eip-20>.
    #[derive(Debug, PartialEq, Eq)]
    interface Erc20 {
        event Transfer(address indexed from, address indexed to, uint256 value);
        event Approval(address indexed owner, address indexed spender, uint256 value);

        function name() external view returns (string);
        function symbol() external view returns (string);
        function decimals() external view returns (uint8);
        function totalSupply() external view returns (uint256);
        function balanceOf(address owner) external view returns (uint256);
        function allowance(address owner, address spender) external view returns (uint256);
        function approve(address spender, uint256 value) external returns (bool);
        function transfer(address to, uint256 value) external returns (bool);
        function transferFrom(address from, address to, uint256 value) external returns (bool);
    }

    /// Signed approvals, <https://eips.ethereum.org/EIPS/eip-2612>.
    #[derive(Debug, PartialEq, Eq)]
    interface Erc2612 {
        function nonces(address owner) external view returns (uint256);
    }

    /// Functions of wrapped ether beyond ERC-20.
    #[derive(Debug, PartialEq, Eq)]
    interface Weth9 {
        event Deposit(address indexed dst, uint256 wad);
        event Withdrawal(address indexed src, uint256 wad);

        function deposit() external payable;
        function withdraw(uint256 wad) external;
    }

    /// Minting of the devnet's own tokens, which is open to anyone.
    #[derive(Debug, PartialEq, Eq)]
    interface OpenMint {
        function mint(address to, uint256 value) external;
    }
}
