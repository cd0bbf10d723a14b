//! Resolution of tokens, and rejection of bad ones, on the populated devnet.

use alloy::primitives::Address;
use bardo::chain::network::{self, Network};
use bardo::chain::token::{TokenError, TokenId, TokenInfo, read, resolve};
use bardo::sandbox::{BlockPace, MarketMode, Sandbox, SandboxConfig};

use crate::world::START;

struct Devnet {
    sandbox: Sandbox,
    networks: Vec<Network>,
}

impl Devnet {
    fn new() -> Self {
        let config = SandboxConfig {
            seed: 3,
            start_time: START,
            pace: BlockPace::Manual,
            clock: None,
            market: MarketMode::Off,
            keeper: false,
        };
        let sandbox = Sandbox::boot(&config, &|_| {}).unwrap();
        let networks = sandbox.description().networks();
        Self { sandbox, networks }
    }

    fn network(&self) -> &Network {
        network::resolve("ethereum", &self.networks).unwrap()
    }

    async fn find(&self, asked: &str) -> Result<TokenInfo, TokenError> {
        resolve(asked, self.network(), &self.sandbox.chains()[0].devnet.provider()).await
    }

    fn bad(&self, key: &str) -> Address {
        self.network().book.others().find(|(name, _)| *name == key).unwrap().1
    }
}

#[tokio::test]
async fn every_listed_token_is_found_with_its_decimals() {
    let devnet = Devnet::new();
    for (symbol, name, decimals) in [
        ("WETH", "Wrapped Ether", 18),
        ("USDC", "USD Coin", 6),
        ("USDT", "Tether USD", 6),
        ("DAI", "Dai Stablecoin", 18),
        ("WBTC", "Wrapped BTC", 8),
        ("UNI", "Uniswap", 18),
        ("LINK", "ChainLink Token", 18),
    ] {
        let token = devnet.find(symbol).await.unwrap();
        assert_eq!((token.symbol.as_str(), token.decimals, token.listed), (symbol, decimals, true));
        let TokenId::Erc20(address) = token.id else { panic!("{symbol} is no contract") };
        assert_eq!(devnet.find(&address.to_string()).await.unwrap(), token);
        // WETH9's name is always "Wrapped Ether"; the rest follows the devnet's plan.
        assert_eq!(token.name.as_str(), name);
    }
    assert_eq!(devnet.find("ETH").await.unwrap().id, TokenId::Native);
}

#[tokio::test]
async fn a_lookalike_and_a_hostile_symbol_are_refused_and_can_be_looked_at() {
    let devnet = Devnet::new();
    for key in ["badLookalikeToken", "badHostileSymbolToken"] {
        let address = devnet.bad(key);
        let error = devnet.find(&address.to_string()).await.unwrap_err();
        assert!(matches!(error, TokenError::Lookalike { .. }), "{key}: {error}");
        let message = error.to_string();
        assert!(message.chars().all(|c| !c.is_control() && !('\u{200b}'..='\u{202e}').contains(&c)), "{message:?}");
        assert!(message.contains(&address.to_string()));

        let provider = devnet.sandbox.chains()[0].devnet.provider();
        let seen = read(&[address], devnet.network(), &provider).await.unwrap().remove(0).unwrap();
        assert!(!seen.listed);
        assert!(!seen.name.as_str().contains(['\u{1b}', '\n']));
    }
}

#[tokio::test]
async fn an_unlisted_token_with_an_honest_symbol_is_found_by_address_only() {
    let devnet = Devnet::new();
    let token = devnet.find(&devnet.bad("badNoReturnToken").to_string()).await.unwrap();
    assert_eq!((token.symbol.as_str(), token.listed), ("MUTE", false));
    assert!(matches!(devnet.find("MUTE").await, Err(TokenError::UnknownSymbol { .. })));
}

#[tokio::test]
async fn accounts_and_contracts_that_are_no_tokens_are_refused() {
    let devnet = Devnet::new();
    let account = devnet.sandbox.accounts()[1];
    assert!(matches!(devnet.find(&account.to_string()).await, Err(TokenError::NoCode { .. })));
    let factory = devnet.network().book.contract(network::KnownContract::V3Factory).unwrap();
    assert!(matches!(devnet.find(&factory.to_string()).await, Err(TokenError::NotAToken { .. })));
}
