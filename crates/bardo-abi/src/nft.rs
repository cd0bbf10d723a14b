//! Tokens other than ERC-20: ERC-721 and ERC-1155, and their approvals for all tokens.

alloy::sol! {
    /// ERC-721, <https://eips.ethereum.org/EIPS/eip-721>.
    #[derive(Debug, PartialEq, Eq)]
    interface Erc721 {
        event Transfer(address indexed from, address indexed to, uint256 indexed tokenId);
        event Approval(address indexed owner, address indexed approved, uint256 indexed tokenId);
        event ApprovalForAll(address indexed owner, address indexed operator, bool approved);

        function ownerOf(uint256 tokenId) external view returns (address);
        function getApproved(uint256 tokenId) external view returns (address);
        function isApprovedForAll(address owner, address operator) external view returns (bool);
        function setApprovalForAll(address operator, bool approved) external;
        function transferFrom(address from, address to, uint256 tokenId) external;
    }

    /// ERC-1155, <https://eips.ethereum.org/EIPS/eip-1155>.
    #[derive(Debug, PartialEq, Eq)]
    interface Erc1155 {
        event TransferSingle(address indexed operator, address indexed from, address indexed to, uint256 id, uint256 value);
        event TransferBatch(address indexed operator, address indexed from, address indexed to, uint256[] ids, uint256[] values);

        function balanceOf(address account, uint256 id) external view returns (uint256);
    }
}
