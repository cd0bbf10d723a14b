//! An anvil with chain id 1 and Uniswap at its mainnet addresses, and the smart-order-router sidecar over it.
//!
//! A contract is created at a given address by running its constructor there: the creation code is installed at the
//! address as code, called once for its return value and once for its storage, and replaced by the returned code. So
//! `address(this)` in it, and the pools' addresses, are those of mainnet.

use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use alloy::primitives::aliases::{I24, U24, U160};
use alloy::primitives::{Address, Bytes, U256, address, hex};
use alloy::providers::{DynProvider, Provider, ProviderBuilder};
use alloy::sol_types::{SolCall, SolValue};
use bardo_abi::erc20::{Erc20, OpenMint, Weth9};
use bardo_abi::uniswap_v2::{UniswapV2Factory, UniswapV2Pair};
use bardo_abi::uniswap_v3::{NonfungiblePositionManager, UniswapV3Factory};
use bardo_sandbox::contracts::{BundledContract, MULTICALL3};
use serde_json::{Value, json};

pub const WETH: Address = address!("0xC02aaA39b223FE8D0A0e5C4F27eAD9083C756Cc2");
pub const USDC: Address = address!("0xA0b86991c6218b36c1d19D4a2e9Eb0cE3606eB48");
pub const USDT: Address = address!("0xdAC17F958D2ee523a2206206994597C13D831ec7");
pub const DAI: Address = address!("0x6B175474E89094C44Da98b954EedeAC495271d0F");
pub const WBTC: Address = address!("0x2260FAC5E5542a773Aa44fBCfeDf7C193bc2C599");

const V2_FACTORY: Address = address!("0x5C69bEe701ef814a2B6a3EDD4B1652CB9cc5aA6f");
const V3_FACTORY: Address = address!("0x1F98431c8aD98523631AE4a59f267346ea31F984");
const POSITIONS: Address = address!("0xC36442b4a4522E871399CD717aBDD847Ab11FE88");
const QUOTER: Address = address!("0x61fFE014bA17989E743c5F6cB21bF9697530B21e");
/// Quoter that the router calls: a read-only one with the same interface. No package contains its code, so QuoterV2's
/// is used.
const VIEW_QUOTER: Address = address!("0x5e55C9e631FAE526cd4B0526C4818D6e0a9eF0e3");
/// Uniswap's own batch reader, which the router calls.
const INTERFACE_MULTICALL: Address = address!("0x1F98415757620B543A52E61c46B32eB19261F984");

/// Tokens with their decimals and price in dollars.
const TOKENS: [(Address, u8, u64); 5] =
    [(WETH, 18, 3_400), (USDC, 6, 1), (USDT, 6, 1), (DAI, 18, 1), (WBTC, 8, 68_000)];
/// V3 pools: fee, and dollars on each side.
const POOLS: [(Address, Address, u32, u64); 7] = [
    (WETH, USDC, 500, 2_000_000),
    (WETH, USDC, 3_000, 3_000_000),
    (WETH, USDT, 3_000, 1_000_000),
    (WETH, DAI, 3_000, 700_000),
    (WETH, WBTC, 3_000, 2_000_000),
    (USDC, USDT, 100, 4_000_000),
    (USDC, DAI, 100, 2_000_000),
];

/// A child process, which ends on drop.
pub struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended by itself, so an error is expected.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// anvil with the contracts, and the sidecar over it.
pub struct Mainnet {
    pub url: String,
    pub provider: DynProvider,
    pub socket: PathBuf,
    _anvil: Running,
    _sidecar: Running,
    _folder: tempfile::TempDir,
}

/// Starts both: `anvil` is the program, `sidecar` the folder in which `npm ci` and `npm run build` have run.
pub async fn start(anvil: &str, sidecar: &Path) -> Mainnet {
    let port = TcpListener::bind("127.0.0.1:0").and_then(|socket| socket.local_addr()).expect("a port").port();
    let url = format!("http://127.0.0.1:{port}");
    let child = Command::new(anvil)
        .args([
            "--chain-id",
            "1",
            "--hardfork",
            "osaka",
            "--gas-limit",
            "60000000",
            "--silent",
            "--port",
            &port.to_string(),
        ])
        .stdout(Stdio::null())
        .spawn()
        .unwrap_or_else(|error| panic!("cannot start {anvil}: {error}"));
    let anvil = Running(child);
    let provider = ProviderBuilder::default().connect_http(url.parse().expect("a URL")).erased();
    for _ in 0..400 {
        if provider.get_chain_id().await.is_ok() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    furnish(&provider, sidecar).await;

    let folder = tempfile::tempdir().expect("a folder");
    let socket = folder.path().join("sidecar.sock");
    let mut child = Command::new("node")
        .arg("dist/main.js")
        .current_dir(sidecar)
        .arg("--socket")
        .arg(&socket)
        .args(["--rpc", &url])
        .stdout(Stdio::piped())
        .spawn()
        .expect("node runs");
    let mut line = String::new();
    BufReader::new(child.stdout.take().expect("piped")).read_line(&mut line).expect("a line");
    let told: Value = serde_json::from_str(&line).expect("the sidecar says where it listens");
    assert_eq!(told["chains"], json!([1]));
    Mainnet { url, provider, socket, _anvil: anvil, _sidecar: Running(child), _folder: folder }
}

async fn furnish(provider: &DynProvider, sidecar: &Path) {
    let me = provider.get_accounts().await.expect("accounts")[0];
    let deployer = Deployer { provider, me };
    deployer.deploy_at(V3_FACTORY, &BundledContract::UniswapV3Factory.code().expect("code")).await;
    deployer.deploy_at(V2_FACTORY, &BundledContract::UniswapV2Factory.creation(&me.abi_encode()).expect("code")).await;
    deployer.deploy_at(WETH, &BundledContract::Weth9.code().expect("code")).await;
    for (symbol, (token, decimals, _)) in ["USDC", "USDT", "DAI", "WBTC"].into_iter().zip(&TOKENS[1..]) {
        let arguments = (symbol.to_owned(), symbol.to_owned(), U256::from(*decimals)).abi_encode_params();
        deployer.deploy_at(*token, &BundledContract::MockERC20.creation(&arguments).expect("code")).await;
    }
    for quoter in [QUOTER, VIEW_QUOTER] {
        let creation = BundledContract::QuoterV2.creation(&(V3_FACTORY, WETH).abi_encode_params()).expect("code");
        deployer.deploy_at(quoter, &creation).await;
    }
    let arguments = (V3_FACTORY, WETH, me).abi_encode_params();
    deployer
        .deploy_at(POSITIONS, &BundledContract::NonfungiblePositionManager.creation(&arguments).expect("code"))
        .await;
    deployer.deploy_at(INTERFACE_MULTICALL, &interface_multicall(sidecar)).await;
    deployer.code(MULTICALL3, &BundledContract::Multicall3.code().expect("code")).await;

    let fee = UniswapV3Factory::enableFeeAmountCall { fee: U24::from(100), tickSpacing: I24::unchecked_from(1) };
    deployer.send(V3_FACTORY, U256::ZERO, fee.abi_encode()).await;
    let ether = U256::from(10).pow(U256::from(18));
    deployer.send(WETH, ether * U256::from(6_000), Weth9::depositCall {}.abi_encode()).await;
    for (token, decimals, _) in TOKENS {
        if token != WETH {
            let value = U256::from(100_000_000) * U256::from(10).pow(U256::from(decimals));
            deployer.send(token, U256::ZERO, OpenMint::mintCall { to: me, value }.abi_encode()).await;
        }
        let approve = Erc20::approveCall { spender: POSITIONS, value: U256::MAX };
        deployer.send(token, U256::ZERO, approve.abi_encode()).await;
    }
    for (a, b, fee, dollars) in POOLS {
        deployer.pool(a, b, fee, dollars).await;
    }
    // A V2 pair with a million dollars per side.
    let create = UniswapV2Factory::createPairCall { tokenA: WETH, tokenB: USDC };
    deployer.send(V2_FACTORY, U256::ZERO, create.abi_encode()).await;
    let pair = address!("0xB4e16d0168e52d35CaCD2c6185b44281Ec28C9Dc");
    for token in [WETH, USDC] {
        let give = Erc20::transferCall { to: pair, value: raw(token, 1_000_000) };
        deployer.send(token, U256::ZERO, give.abi_encode()).await;
    }
    deployer.send(pair, U256::ZERO, UniswapV2Pair::mintCall { to: me }.abi_encode()).await;
}

/// Raw units of a token worth this many dollars.
fn raw(token: Address, dollars: u64) -> U256 {
    let (_, decimals, price) = TOKENS.into_iter().find(|(known, ..)| *known == token).expect("a token");
    U256::from(dollars) * U256::from(10).pow(U256::from(decimals)) / U256::from(price)
}

/// Creation code from the router's own packages, whose lens it is.
fn interface_multicall(sidecar: &Path) -> Bytes {
    let inside = "node_modules/@uniswap/v3-periphery/artifacts/contracts/lens/UniswapInterfaceMulticall.sol";
    let file = sidecar.join(inside).join("UniswapInterfaceMulticall.json");
    let artifact: Value = serde_json::from_slice(&std::fs::read(file).expect("the sidecar's packages")).expect("JSON");
    hex::decode(artifact["bytecode"].as_str().expect("bytecode")).expect("hexadecimal").into()
}

struct Deployer<'a> {
    provider: &'a DynProvider,
    me: Address,
}

impl Deployer<'_> {
    async fn ask(&self, method: &'static str, params: Value) -> Value {
        self.provider.raw_request(method.into(), params).await.unwrap_or_else(|error| panic!("{method}: {error}"))
    }

    async fn code(&self, at: Address, code: &Bytes) {
        self.ask("anvil_setCode", json!([at, code])).await;
    }

    /// Runs a constructor at a chosen address.
    async fn deploy_at(&self, at: Address, creation: &Bytes) {
        self.code(at, creation).await;
        let call = json!({"from": self.me, "to": at, "gas": "0x1c9c380"});
        let runtime: Bytes = serde_json::from_value(self.ask("eth_call", json!([call, "latest"])).await).expect("code");
        assert!(runtime.len() > 100, "{at}");
        self.send(at, U256::ZERO, Vec::new()).await;
        self.code(at, &runtime).await;
    }

    async fn send(&self, to: Address, value: U256, data: Vec<u8>) {
        let transaction = json!({
            "from": self.me, "to": to, "value": value, "data": Bytes::from(data), "gas": "0x1000000",
        });
        let hash = self.ask("eth_sendTransaction", json!([transaction])).await;
        for _ in 0..200 {
            let receipt = self.ask("eth_getTransactionReceipt", json!([hash])).await;
            if !receipt.is_null() {
                assert_eq!(receipt["status"], "0x1", "{to}: {receipt}");
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        panic!("no receipt for {hash}");
    }

    /// Creates a pool at its tokens' prices, with one full-range position.
    async fn pool(&self, a: Address, b: Address, fee: u32, dollars: u64) {
        let (token0, token1) = if a < b { (a, b) } else { (b, a) };
        let (amount0, amount1) = (raw(token0, dollars), raw(token1, dollars));
        // The square root of amount1 / amount0, times 2^96: both sides have the same value.
        let ratio: U256 = (amount1 << 128_usize) / amount0;
        let root: U256 = ratio.root(2) << 32_usize;
        let create = NonfungiblePositionManager::createAndInitializePoolIfNecessaryCall {
            token0,
            token1,
            fee: U24::from(fee),
            sqrtPriceX96: U160::from(root),
        };
        self.send(POSITIONS, U256::ZERO, create.abi_encode()).await;
        let spacing = match fee {
            100 => 1,
            500 => 10,
            _ => 60,
        };
        let edge = 887_272 / spacing * spacing;
        let params = NonfungiblePositionManager::MintParams {
            token0,
            token1,
            fee: U24::from(fee),
            tickLower: I24::unchecked_from(-edge),
            tickUpper: I24::unchecked_from(edge),
            amount0Desired: amount0,
            amount1Desired: amount1,
            amount0Min: U256::ZERO,
            amount1Min: U256::ZERO,
            recipient: self.me,
            deadline: U256::from(u64::MAX),
        };
        self.send(POSITIONS, U256::ZERO, NonfungiblePositionManager::mintCall { params }.abi_encode()).await;
    }
}
