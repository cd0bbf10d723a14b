//! Tests with misbehaving token contracts on a fake chain. Tests with the real devnet are in `tests/`.

use std::{
    collections::HashMap,
    sync::Arc,
    task::{Context, Poll},
};

use alloy::{
    primitives::{Address, U256, address, hex},
    providers::{Provider, RootProvider},
    rpc::{
        client::RpcClient,
        json_rpc::{RequestPacket, ResponsePacket, SerializedRequest},
    },
    sol_types::SolValue,
    transports::{TransportError, TransportFut},
};
use parking_lot::Mutex;
use serde_json::{Value, json};

use super::{TokenError, TokenId, TokenInfo, parse_address, read, resolve};
use crate::network::{AddressBook, BookToken, Network};

const USDC: Address = address!("A0b86991c6218b36c1d19D4a2e9Eb0cE3606eB48");
const MKR: Address = address!("9f8F72aA9304c8B593d555F12eF6589cC3A579A2");
const OTHER: Address = address!("1f9840a85d5aF5bf1D1762F925BDADdC4201F984");

/// Return data of a contract's methods; `None` reverts.
#[derive(Clone, Default)]
struct Contract {
    symbol: Option<Vec<u8>>,
    name: Option<Vec<u8>>,
    decimals: Option<Vec<u8>>,
}

/// Four-byte selectors of ERC-20's metadata methods, from the standard.
const SYMBOL: &str = "0x95d89b41";
const NAME: &str = "0x06fdde03";
const DECIMALS: &str = "0x313ce567";

#[derive(Clone, Default)]
struct Table {
    contracts: HashMap<Address, Contract>,
    /// Error with which every request fails instead.
    broken: Option<(i64, &'static str)>,
    packets: Arc<Mutex<usize>>,
}

impl Table {
    fn with(mut self, at: Address, symbol: &str, decimals: u64) -> Self {
        let contract = Contract {
            symbol: Some(symbol.abi_encode()),
            name: Some("Some Coin".abi_encode()),
            decimals: Some(U256::from(decimals).abi_encode()),
        };
        self.contracts.insert(at, contract);
        self
    }

    fn provider(&self) -> impl Provider {
        RootProvider::<alloy::network::Ethereum>::new(RpcClient::new(self.clone(), true))
    }

    fn answer(&self, request: &SerializedRequest) -> Value {
        let id = request.id();
        let error = |code: i64, message: &str| json!({"jsonrpc":"2.0","id":id,"error":{"code":code,"message":message}});
        if let Some((code, message)) = self.broken {
            return error(code, message);
        }
        let params: Value = serde_json::from_str(request.params().unwrap().get()).unwrap();
        let result = match request.method() {
            "eth_getCode" => {
                let at: Address = serde_json::from_value(params[0].clone()).unwrap();
                json!(if self.contracts.contains_key(&at) { "0x60" } else { "0x" })
            }
            "eth_call" => {
                let at: Address = serde_json::from_value(params[0]["to"].clone()).unwrap();
                let Some(contract) = self.contracts.get(&at) else {
                    return json!({"jsonrpc":"2.0","id":id,"result":"0x"});
                };
                let output = match params[0]["input"].as_str().unwrap() {
                    SYMBOL => &contract.symbol,
                    NAME => &contract.name,
                    DECIMALS => &contract.decimals,
                    other => panic!("{other}"),
                };
                match output {
                    Some(bytes) => json!(hex::encode_prefixed(bytes)),
                    None => return error(3, "execution reverted"),
                }
            }
            other => panic!("{other}"),
        };
        json!({"jsonrpc":"2.0","id":id,"result":result})
    }
}

impl tower::Service<RequestPacket> for Table {
    type Response = ResponsePacket;
    type Error = TransportError;
    type Future = TransportFut<'static>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, packet: RequestPacket) -> Self::Future {
        *self.packets.lock() += 1;
        let answer = match &packet {
            RequestPacket::Single(request) => self.answer(request),
            RequestPacket::Batch(requests) => requests.iter().map(|request| self.answer(request)).collect(),
        };
        Box::pin(async move { Ok(serde_json::from_value(answer).unwrap()) })
    }
}

fn network() -> Network {
    let mut book = AddressBook::default();
    for (symbol, decimals, address) in [
        ("USDC", 6, USDC),
        ("MKR", 18, MKR),
        ("stETH", 18, Address::repeat_byte(1)),
        ("STETH", 18, Address::repeat_byte(2)),
    ] {
        book.set_token(BookToken { symbol: symbol.into(), name: symbol.into(), decimals, address });
    }
    Network { book, ..Network::unknown("ethereum", 1) }
}

async fn ask(table: &Table, asked: &str) -> Result<TokenInfo, TokenError> {
    resolve(asked, &network(), &table.provider()).await
}

async fn refusal(table: &Table, asked: &str) -> (TokenError, String) {
    let error = ask(table, asked).await.unwrap_err();
    let message = error.to_string();
    (error, message)
}

#[tokio::test]
async fn a_listed_symbol_is_read_in_one_round_trip() {
    let table = Table::default().with(USDC, "USDC", 6);
    let token = ask(&table, "USDC").await.unwrap();
    assert_eq!(
        (token.id, token.symbol.as_str(), token.decimals, token.listed),
        (TokenId::Erc20(USDC), "USDC", 6, true)
    );
    assert_eq!(token.name.as_str(), "Some Coin");
    assert_eq!(*table.packets.lock(), 1);
    assert_eq!(ask(&table, "usdc").await.unwrap(), token);
    assert_eq!(ask(&table, " 0xa0b86991c6218b36c1d19d4a2e9eb0ce3606eb48 ").await.unwrap(), token);
}

#[tokio::test]
async fn the_native_coin_needs_no_chain_read() {
    let table = Table::default();
    for asked in ["ETH", "eth", "0xEeeeeEeeeEeEeeEeEeEeeEEEeeeeEeeeeeeeEEeE"] {
        let token = ask(&table, asked).await.unwrap();
        assert_eq!((token.id, token.symbol.as_str(), token.decimals), (TokenId::Native, "ETH", 18));
    }
    assert_eq!(*table.packets.lock(), 0);
}

#[tokio::test]
async fn symbols_in_32_bytes_are_read() {
    let mut table = Table::default().with(OTHER, "", 18);
    let contract = table.contracts.get_mut(&OTHER).unwrap();
    let mut word = [0_u8; 32];
    word[..3].copy_from_slice(b"SAI");
    contract.symbol = Some(word.to_vec());
    contract.name = None;
    let token = ask(&table, &OTHER.to_string()).await.unwrap();
    assert_eq!((token.symbol.as_str(), token.name.as_str(), token.listed), ("SAI", "SAI", false));
    assert!(!token.symbol.altered());
}

#[tokio::test]
async fn unclear_names_are_refused_with_candidates() {
    let table = Table::default().with(USDC, "USDC", 6);
    let (error, message) = refusal(&table, "steth").await;
    assert!(matches!(&error, TokenError::Ambiguous { candidates, .. } if candidates.len() == 2), "{message}");
    assert!(message.contains("stETH 0x0101010101010101010101010101010101010101"), "{message}");
    let (_, message) = refusal(&table, "USDB").await;
    assert!(
        message.starts_with("unknown token 'USDB' (did you mean USDC?) on ethereum (1); known by symbol: ETH, USDC"),
        "{message}"
    );
    assert_eq!(ask(&table, "  ").await, Err(TokenError::Empty));
}

#[tokio::test]
async fn lookalike_names_are_refused_with_the_real_one() {
    let table = Table::default().with(USDC, "USDC", 6);
    for asked in ["USD\u{421}", "US\u{200b}DC", "U5DC", "\u{395}TH"] {
        let (error, message) = refusal(&table, asked).await;
        assert!(matches!(error, TokenError::Lookalike { address: None, .. }), "{asked:?}: {message}");
    }
    let (_, message) = refusal(&table, "USD\u{421}").await;
    assert!(message.ends_with("The listed one is USDC 0xA0b86991c6218b36c1d19D4a2e9Eb0cE3606eB48"), "{message}");
}

#[tokio::test]
async fn a_contract_that_imitates_is_refused() {
    for (symbol, impostor) in [
        ("USDC", true),
        ("USD\u{421}", false),
        ("USDC\u{200b}", false),
        ("usdc", false),
        ("ETH", false),
        ("E\u{442}H", false),
    ] {
        let table = Table::default().with(OTHER, symbol, 6);
        let (error, message) = refusal(&table, &OTHER.to_string()).await;
        assert_eq!(matches!(error, TokenError::Impostor { .. }), impostor, "{message}");
        assert!(
            impostor || matches!(error, TokenError::Lookalike { address: Some(OTHER), .. }),
            "{symbol:?}: {message}"
        );
        assert!(message.contains(&OTHER.to_string()), "{message}");
        // Its metadata can still be read.
        let seen = read(&[OTHER], &network(), &table.provider()).await.unwrap();
        assert!(!seen[0].as_ref().unwrap().listed);
    }
}

#[tokio::test]
async fn a_symbol_with_escape_codes_is_refused_and_harmless_to_print() {
    let table = Table::default().with(OTHER, "\u{1b}[2J\u{1b}]0;owned\u{7}", 18);
    let (error, message) = refusal(&table, &OTHER.to_string()).await;
    assert!(matches!(error, TokenError::Lookalike { .. }));
    assert!(message.chars().all(|c| !c.is_control()), "{message:?}");
    assert!(message.contains("invisible characters"), "{message}");
}

#[tokio::test]
async fn an_honest_unlisted_token_is_usable() {
    let table = Table::default().with(OTHER, "UNI", 18);
    let token = ask(&table, "0x1f9840a85d5aF5bf1D1762F925BDADdC4201F984").await.unwrap();
    assert_eq!((token.symbol.as_str(), token.listed), ("UNI", false));
}

#[tokio::test]
async fn absurd_decimals_are_refused() {
    for decimals in [78, 255, 256, u64::MAX] {
        let table = Table::default().with(OTHER, "BIG", decimals);
        let (error, message) = refusal(&table, &OTHER.to_string()).await;
        assert!(matches!(error, TokenError::AbsurdDecimals { .. }), "{message}");
        assert!(message.contains(&format!("impossible decimals: {decimals};")), "{message}");
    }
    let table = Table::default().with(OTHER, "EDGE", 77);
    assert_eq!(ask(&table, &OTHER.to_string()).await.unwrap().decimals, 77);
}

#[tokio::test]
async fn wrong_decimals_in_a_token_list_are_detected() {
    let table = Table::default().with(USDC, "USDC", 18);
    let (error, _) = refusal(&table, "USDC").await;
    assert!(matches!(error, TokenError::DecimalsDiffer { listed: 6, found: 18, .. }));
}

#[tokio::test]
async fn an_address_that_is_no_token_is_rejected() {
    let (error, message) = refusal(&Table::default(), &OTHER.to_string()).await;
    assert!(matches!(error, TokenError::NoCode { .. }), "{message}");
    assert!(message.contains("no contract at 0x1f9840a85d5aF5bf1D1762F925BDADdC4201F984 on ethereum (1)"), "{message}");
    let whole = Table::default().with(OTHER, "X", 18).contracts[&OTHER].clone();
    for (contract, what) in [
        (Contract { decimals: None, ..whole.clone() }, "it has no decimals()"),
        (Contract { decimals: Some(vec![18]), ..whole.clone() }, "it has no decimals()"),
        (Contract { symbol: None, ..whole.clone() }, "it has no symbol()"),
        (Contract { symbol: Some(vec![0; 32]), ..whole.clone() }, "it has no symbol()"),
        // A string whose length points past the end.
        (
            Contract { symbol: Some([U256::from(32), U256::MAX, U256::ZERO].abi_encode()), ..whole },
            "it has no symbol()",
        ),
    ] {
        let mut table = Table::default();
        table.contracts.insert(OTHER, contract);
        assert_eq!(ask(&table, &OTHER.to_string()).await, Err(TokenError::NotAToken { address: OTHER, what }));
    }
}

#[tokio::test]
async fn an_endpoint_that_fails_is_not_mistaken_for_a_bad_token() {
    let table = Table { broken: Some((-32005, "limit \u{1b}[31mexceeded")), ..Table::default().with(USDC, "USDC", 6) };
    let (error, message) = refusal(&table, "USDC").await;
    assert!(matches!(error, TokenError::Chain(_)), "{message}");
    assert!(!message.contains('\u{1b}'));
}

#[test]
fn addresses_must_be_whole_and_their_checksum_right() {
    // Examples from EIP-55.
    for good in [
        "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed",
        "0xfB6916095ca1df60bB79Ce92cE3Ea74c37c5d359",
        "0x52908400098527886E0F7030069857D2E4169EE7",
        "0xde709f2102306220921060314715629080e2fb77",
    ] {
        assert!(parse_address(good).is_ok(), "{good}");
    }
    for wrong in ["0x5aAeb6053F3E94C9b9A09f33669435E7Ef1Beaed", "0xFb6916095ca1df60bB79Ce92cE3Ea74c37c5d359"] {
        assert!(matches!(parse_address(wrong), Err(TokenError::Checksum { .. })), "{wrong}");
    }
    for (short, count) in [
        ("0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAe", 39),
        ("0x", 0),
        ("0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAedd", 41),
    ] {
        assert!(
            matches!(parse_address(short), Err(TokenError::NotAnAddress { digits, .. }) if digits == count),
            "{short}"
        );
    }
    assert!(matches!(
        parse_address("0xzzzeb6053F3E94C9b9A09f33669435E7Ef1BeAed"),
        Err(TokenError::NotAnAddress { .. })
    ));
}

#[tokio::test]
async fn the_zero_address_is_no_token() {
    let (error, _) = refusal(&Table::default(), "0x0000000000000000000000000000000000000000").await;
    assert_eq!(error, TokenError::ZeroAddress { native: "ETH" });
}

#[tokio::test]
async fn many_tokens_cost_few_round_trips() {
    let mut table = Table::default();
    let addresses: Vec<Address> = (1..=45_u8).map(Address::repeat_byte).collect();
    for address in &addresses {
        table = table.with(*address, "X", 18);
    }
    let tokens = read(&addresses, &Network::unknown("x", 5), &table.provider()).await.unwrap();
    assert_eq!(tokens.iter().filter(|token| token.is_ok()).count(), 45);
    assert_eq!(*table.packets.lock(), 3);
}
