//! The devnet's quotes, approvals, swap calls and swap status, in the documented formats of Uniswap's Trading API.
//! Routes come from Bardo's router over the devnet's pools. As in the real API, a request without a key is refused, but
//! any key is accepted.
//!
//! Not supported: integrator fees, bridges, V4. Typed data for orders is omitted (`permitData` is null), since signers
//! build it themselves.

use std::str::FromStr as _;
use std::sync::Arc;

use alloy::eips::BlockId;
use alloy::primitives::{Address, B256, Bytes, U256};
use alloy::providers::Provider as _;
use alloy::sol_types::SolCall as _;
use serde_json::{Value, json};

use super::{HttpAnswer, address, at, bytes, invalid, number, refused, request_id, text};
use crate::{Sandbox, SandboxChain};
use bardo_abi::erc20::Erc20;
use bardo_abi::permit2::Permit2;
use bardo_base::clock::{Clock, SystemClock};
use bardo_base::units::BasisPoints;
use golem_chain::multicall::CallBatch;
use golem_chain::network::{KnownContract, Network};
use golem_chain::permit2::{PermitDetails, PermitSingle, UNLIMITED};
use golem_chain::provider::ChainClient;
use golem_protocols::uniswap::claim::{self, ClaimRequest};
use golem_protocols::uniswap::discovery::{DiscoveryError, PoolReader, PoolSnapshot, TickReach};
use golem_protocols::uniswap::order::{AuctionTerms, OrderAmounts, OrderDraft, OrderKind};
use golem_protocols::uniswap::pool::{FixedAmount, ProtocolVersion};
use golem_protocols::uniswap::ratio::Ratio;
use golem_protocols::uniswap::router::{OutputRecipient, RouterVersion, SwapRequest, plan};
use golem_protocols::uniswap::routing::{GasCost, PoolSet, Route, RouteError, RouteRequest, best_route};
use golem_protocols::uniswap::service::order_info;
use golem_protocols::uniswap::trading::SwapStatus;

/// Lifetime of a quote's order, in seconds.
const ORDER_SECONDS: u64 = 120;
/// Lifetime of a quote's permit and its allowance, in seconds.
const PERMIT_SECONDS: u64 = 1_800;
/// Default slippage, in basis points.
const AUTO_SLIPPAGE: u32 = 50;
/// Number of blocks over which a V3 order decays.
const FALLS_OVER: u16 = 30;
/// Maximum price impact up to which a route over the ticks near the price is accepted, in basis points.
const NEAR_IMPACT_BPS: u64 = 1_000;
/// Maximum number of transactions in a status request.
const MOST_HASHES: usize = 50;

/// A client's access to one chain of the devnet.
struct ChainAccess<'a> {
    chain: &'a SandboxChain,
    network: Network,
    client: ChainClient,
    pools: PoolReader,
}

impl<'a> ChainAccess<'a> {
    fn open(sandbox: &'a Sandbox, chain_id: u64) -> Result<Self, HttpAnswer> {
        let unknown = || invalid(format_args!("chain {chain_id} is not a chain of this devnet"));
        let chain = sandbox.chain(&chain_id.to_string()).ok_or_else(unknown)?;
        let networks = sandbox.description().networks();
        let network = networks.into_iter().find(|network| network.chain_id == chain_id).ok_or_else(unknown)?;
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        let client = ChainClient::devnet(network.clone(), chain.devnet.clone(), clock).map_err(|error| ill(&error))?;
        let pools = PoolReader::new(client.provider().clone(), &network).map_err(|error| ill(&error))?;
        Ok(Self { chain, network, client, pools })
    }

    fn contract(&self, contract: KnownContract) -> Result<Address, HttpAnswer> {
        self.network.book.contract(contract).ok_or_else(|| ill(&format_args!("no {} here", contract.key())))
    }

    /// Address of a token in pools: the zero address stands for the native token.
    fn pooled(&self, token: Address) -> Result<Address, HttpAnswer> {
        if token.is_zero() { self.contract(KnownContract::WrappedNative) } else { Ok(token) }
    }
}

fn ill(error: &dyn std::fmt::Display) -> HttpAnswer {
    refused(503, "ServiceUnavailable", error)
}

fn unfound(error: DiscoveryError) -> HttpAnswer {
    match error {
        DiscoveryError::Route(error) => no_route(&error),
        other => ill(&other),
    }
}

fn no_route(error: &RouteError) -> HttpAnswer {
    match error {
        RouteError::NoRoute { .. } | RouteError::InsufficientLiquidity { .. } | RouteError::AmountTooSmall { .. } => {
            refused(404, "ResourceNotFound", "No quotes available")
        }
        RouteError::SameToken { .. } | RouteError::ZeroAmount | RouteError::AmountTooLarge => invalid(error),
    }
}

fn digits(value: &Value, name: &str) -> Result<U256, HttpAnswer> {
    let said = text(value, &[name])?;
    let plain = !said.is_empty() && said.bytes().all(|byte| byte.is_ascii_digit());
    let number = if plain { U256::from_str_radix(said, 10).ok() } else { None };
    number.ok_or_else(|| invalid(format_args!("\"{name}\" is not an amount")))
}

/// Parses a percentage of the API as basis points.
fn slippage(value: Option<&Value>) -> Result<BasisPoints, HttpAnswer> {
    let wrong = || invalid("\"slippageTolerance\" is not a percentage");
    let points = match value {
        None => Some(AUTO_SLIPPAGE),
        Some(percent) => {
            let percent = percent.as_f64().filter(|percent| (0.0..=100.0).contains(percent)).ok_or_else(wrong)?;
            // At most 10,000 because of the range check.
            format!("{:.0}", percent * 100.0).parse().ok()
        }
    };
    points.and_then(|points| BasisPoints::new(points).ok()).ok_or_else(wrong)
}

/// Handles `POST /quote`.
pub(super) async fn quote(sandbox: &Sandbox, body: &Value) -> Result<HttpAnswer, HttpAnswer> {
    let chain_id = number(body, &["tokenInChainId"])?;
    if number(body, &["tokenOutChainId"])? != chain_id {
        return Err(invalid("bridges are not quoted here"));
    }
    if at(body, &["slippageTolerance"]).is_some() == at(body, &["autoSlippage"]).is_some() {
        return Err(invalid("one of \"slippageTolerance\" and \"autoSlippage\" must be given, and not both"));
    }
    let slippage = slippage(at(body, &["slippageTolerance"]))?;
    let access = ChainAccess::open(sandbox, chain_id)?;
    let amount = digits(body, "amount")?;
    let exact = match text(body, &["type"])? {
        "EXACT_INPUT" => FixedAmount::In(amount),
        "EXACT_OUTPUT" => FixedAmount::Out(amount),
        _ => return Err(invalid("\"type\" must be EXACT_INPUT or EXACT_OUTPUT")),
    };
    let asked = ClaimRequest {
        chain_id,
        token_in: address(body, "tokenIn")?,
        token_out: address(body, "tokenOut")?,
        exact,
        swapper: address(body, "swapper")?,
    };
    let protocols: Vec<&str> = match at(body, &["protocols"]) {
        None => vec!["V2", "V3"],
        Some(listed) => {
            let words = listed.as_array().map(|listed| listed.iter().filter_map(Value::as_str).collect());
            words.filter(|words: &Vec<&str>| !words.is_empty()).ok_or_else(|| invalid("\"protocols\" is not a list"))?
        }
    };
    let pools_too = protocols.iter().any(|protocol| matches!(*protocol, "V2" | "V3"));
    let versions = |version: ProtocolVersion| {
        !pools_too
            || protocols.contains(match version {
                ProtocolVersion::V2 => &"V2",
                ProtocolVersion::V3 => &"V3",
                ProtocolVersion::V4 => &"V4",
            })
    };
    let (route, snapshot) = best(&access, &asked, versions).await?;
    let kind = protocols.iter().find_map(|protocol| auction(&access, protocol));
    match (kind, exact) {
        (Some(kind), FixedAmount::In(_)) if !asked.token_in.is_zero() => {
            order(&access, kind, &asked, &route, slippage, &snapshot)
        }
        _ if pools_too => classic(&access, &asked, &route, slippage, &snapshot).await,
        _ => Err(refused(404, "ResourceNotFound", "No quotes available")),
    }
}

/// Auction of a protocol name on this chain; `None` if it is not an auction or has no reactor.
fn auction(access: &ChainAccess<'_>, protocol: &str) -> Option<OrderKind> {
    let kind = match (protocol, access.network.name.as_str()) {
        ("UNISWAPX_V3", _) => OrderKind::DutchV3,
        ("UNISWAPX_V2" | "UNISWAPX", "base") => OrderKind::Priority,
        ("UNISWAPX_V2" | "UNISWAPX", _) => OrderKind::DutchV2,
        _ => return None,
    };
    access.chain.background_actors.order_service().reactor(kind).map(|_| kind)
}

async fn best(
    access: &ChainAccess<'_>,
    asked: &ClaimRequest,
    versions: impl Fn(ProtocolVersion) -> bool,
) -> Result<(Route, Arc<PoolSnapshot>), HttpAnswer> {
    let (token_in, token_out) = (access.pooled(asked.token_in)?, access.pooled(asked.token_out)?);
    let pair = [token_in, token_out];
    let near = access.pools.pools(&pair, BlockId::latest(), TickReach::Near).await.map_err(unfound)?;
    let gas_price = access.client.provider().get_gas_price().await.map_err(|_| ill(&"the chain does not respond"))?;
    let mut request = RouteRequest::new(token_in, token_out, asked.exact);
    let open = if matches!(asked.exact, FixedAmount::In(_)) { token_out } else { token_in };
    let wrapped = access.contract(KnownContract::WrappedNative)?;
    request.gas = near.pools.token_per_native(wrapped, open).and_then(|price| GasCost::new(gas_price, &price));
    let over = |pools: &PoolSnapshot| {
        let allowed = pools.pools.pools().iter().filter(|pool| versions(pool.version())).cloned();
        best_route(&PoolSet::new(allowed), &request)
    };
    // Like Bardo's router: reads all ticks only if those near the price are not sufficient.
    let bound = Ratio::of(U256::from(NEAR_IMPACT_BPS), U256::from(10_000));
    match over(&near) {
        Ok(route) if bound.is_some_and(|bound| route.price_impact <= bound) => return Ok((route, near)),
        Ok(_) | Err(RouteError::InsufficientLiquidity { .. }) => {}
        Err(error) => return Err(no_route(&error)),
    }
    let block = BlockId::from(near.block_hash);
    let whole = access.pools.pools(&pair, block, TickReach::Whole).await.map_err(unfound)?;
    Ok((over(&whole).map_err(|error| no_route(&error))?, whole))
}

async fn classic(
    access: &ChainAccess<'_>,
    asked: &ClaimRequest,
    route: &Route,
    slippage: BasisPoints,
    snapshot: &PoolSnapshot,
) -> Result<HttpAnswer, HttpAnswer> {
    let mut quote = claim::to_json(route, asked, snapshot.block_number);
    if let Value::Object(fields) = &mut quote {
        let percent = f64::from(slippage.get()) / 100.0;
        fields.insert("slippage".to_owned(), percent.into());
        fields.insert("quoteId".to_owned(), request_id().into());
        fields.insert("priceImpact".to_owned(), route.price_impact.to_percent(2).parse::<f64>().unwrap_or(0.0).into());
    }
    let permit = permit(access, asked, route.amount_in, snapshot.timestamp).await?;
    let answer = json!({ "requestId": request_id(), "routing": "CLASSIC", "quote": quote, "permitData": permit });
    Ok((200, answer))
}

/// The permit that the router still needs, as typed data; null if none is needed.
async fn permit(access: &ChainAccess<'_>, asked: &ClaimRequest, amount: U256, now: u64) -> Result<Value, HttpAnswer> {
    if asked.token_in.is_zero() {
        return Ok(Value::Null);
    }
    let (permit2, router) =
        (access.contract(KnownContract::Permit2)?, access.contract(KnownContract::UniversalRouterV210)?);
    let mut calls = CallBatch::default();
    let (owner, token) = (asked.swapper, asked.token_in);
    let standing = calls.push(permit2, &Permit2::allowanceCall { owner, token, spender: router });
    let multicall = access.contract(KnownContract::Multicall3)?;
    let answers =
        calls.send(access.client.provider(), multicall, BlockId::latest()).await.map_err(|error| ill(&error))?;
    let standing = standing.take(&answers).ok_or_else(|| ill(&"Permit2 does not respond"))?;
    if U256::from(standing.amount) >= amount && standing.expiration.to::<u64>() > now {
        return Ok(Value::Null);
    }
    let field = |name: &str, kind: &str| json!({ "name": name, "type": kind });
    Ok(json!({
        "domain": { "name": "Permit2", "chainId": asked.chain_id, "verifyingContract": permit2 },
        "types": {
            "PermitDetails": [
                field("token", "address"), field("amount", "uint160"),
                field("expiration", "uint48"), field("nonce", "uint48"),
            ],
            "PermitSingle": [
                field("details", "PermitDetails"), field("spender", "address"), field("sigDeadline", "uint256"),
            ],
        },
        "values": {
            "details": {
                "token": token,
                "amount": amount.min(U256::from(UNLIMITED)).to_string(),
                "expiration": now.saturating_add(PERMIT_SECONDS).to_string(),
                "nonce": standing.nonce.to_string(),
            },
            "spender": router,
            "sigDeadline": now.saturating_add(PERMIT_SECONDS).to_string(),
        },
    }))
}

fn order(
    access: &ChainAccess<'_>,
    kind: OrderKind,
    asked: &ClaimRequest,
    route: &Route,
    slippage: BasisPoints,
    snapshot: &PoolSnapshot,
) -> Result<HttpAnswer, HttpAnswer> {
    let service = access.chain.background_actors.order_service();
    let reactor = service.reactor(kind).ok_or_else(|| invalid("orders of this kind are not settled here"))?;
    let least_out = slippage.minimum_out(route.amount_out);
    let auction = match kind {
        OrderKind::Dutch | OrderKind::DutchV2 => AuctionTerms::CosignedTimes,
        OrderKind::DutchV3 => AuctionTerms::CosignedBlocks { over: FALLS_OVER, base_fee: 0, per_gwei: U256::ZERO },
        OrderKind::Priority => AuctionTerms::PriorityFee {
            start_block: snapshot.block_number.saturating_add(3),
            baseline: 0,
            mps_per_wei: U256::from(1),
        },
    };
    let draft = OrderDraft {
        reactor,
        swapper: asked.swapper,
        recipient: asked.swapper,
        nonce: U256::from_be_bytes(rand::random::<[u8; 32]>()),
        deadline: snapshot.timestamp.saturating_add(ORDER_SECONDS),
        cosigner: access.chain.deployment.cosigner,
        token_in: asked.token_in,
        token_out: asked.token_out,
        legs: OrderAmounts::ExactIn { amount_in: route.amount_in, start_out: route.amount_out, least_out },
        auction,
    };
    let order = draft.order().map_err(invalid)?;
    let quote = json!({
        "encodedOrder": order.encode(),
        "orderId": order.hash(),
        "quoteId": request_id(),
        "slippageTolerance": f64::from(slippage.get()) / 100.0,
        "orderInfo": order_info(asked.chain_id, &order),
    });
    let answer = json!({ "requestId": request_id(), "routing": kind.name(), "quote": quote, "permitData": null });
    Ok((200, answer))
}

/// Handles `POST /check_approval`.
pub(super) async fn approval(sandbox: &Sandbox, body: &Value) -> Result<HttpAnswer, HttpAnswer> {
    let chain_id = number(body, &["chainId"])?;
    let access = ChainAccess::open(sandbox, chain_id)?;
    let (owner, token) = (address(body, "walletAddress")?, address(body, "token")?);
    let amount = digits(body, "amount")?;
    let mut told = json!({ "requestId": request_id(), "approval": null, "cancel": null });
    if token.is_zero() {
        return Ok((200, told));
    }
    let permit2 = access.contract(KnownContract::Permit2)?;
    let mut calls = CallBatch::default();
    let standing = calls.push(token, &Erc20::allowanceCall { owner, spender: permit2 });
    let multicall = access.contract(KnownContract::Multicall3)?;
    let answers =
        calls.send(access.client.provider(), multicall, BlockId::latest()).await.map_err(|error| ill(&error))?;
    let standing = standing.take(&answers).ok_or_else(|| invalid("\"token\" is not a token"))?;
    if standing < amount
        && let Value::Object(fields) = &mut told
    {
        let call = Erc20::approveCall { spender: permit2, value: U256::MAX }.abi_encode();
        let transaction = json!({
            "to": token, "from": owner, "value": "0x00", "chainId": chain_id, "data": Bytes::from(call),
        });
        fields.insert("approval".to_owned(), transaction);
    }
    Ok((200, told))
}

/// Handles `POST /swap`.
pub(super) async fn swap(sandbox: &Sandbox, body: &Value) -> Result<HttpAnswer, HttpAnswer> {
    let quote = at(body, &["quote"]).ok_or_else(|| invalid("\"quote\" is missing"))?;
    let chain_id = number(quote, &["chainId"])?;
    let access = ChainAccess::open(sandbox, chain_id)?;
    let side = |name: &'static str| {
        let side = at(quote, &[name]).ok_or_else(|| invalid(format_args!("\"quote.{name}\" is missing")))?;
        Ok::<_, HttpAnswer>((address(side, "token")?, digits(side, "amount")?))
    };
    let ((token_in, amount_in), (token_out, amount_out)) = (side("input")?, side("output")?);
    let exact = match text(quote, &["tradeType"])? {
        "EXACT_INPUT" => FixedAmount::In(amount_in),
        _ => FixedAmount::Out(amount_out),
    };
    let asked = ClaimRequest { chain_id, token_in, token_out, exact, swapper: address(quote, "swapper")? };
    let claim = claim::parse(quote, &asked).map_err(invalid)?;
    let request = RouteRequest::new(access.pooled(token_in)?, access.pooled(token_out)?, exact);
    let along = access.pools.along(&request, &claim.paths, &claim.tokens, BlockId::latest()).await.map_err(unfound)?;
    let (route, _) = along.map_err(invalid)?;
    let permit = match (at(body, &["permitData"]), at(body, &["signature"])) {
        (None, None) => None,
        (Some(permit), Some(_)) => Some((read_permit(permit)?, bytes(body, &["signature"])?)),
        _ => return Err(invalid("\"signature\" and \"permitData\" must be given together or not at all")),
    };
    let trade = plan(&SwapRequest {
        route: &route,
        native_in: token_in.is_zero(),
        native_out: token_out.is_zero(),
        slippage: slippage(at(quote, &["slippage"]))?,
        recipient: OutputRecipient::Account(asked.swapper),
        permit,
        portion: None,
        one_bound: false,
        deadline: at(body, &["deadline"]).and_then(Value::as_u64).map(U256::from),
    });
    let trade = trade.map_err(invalid)?;
    let transaction = json!({
        "to": access.contract(KnownContract::UniversalRouterV210)?,
        "from": asked.swapper,
        "data": trade.execution.encode(RouterVersion::V2_1_0),
        "value": format!("{:#x}", trade.value),
        "chainId": chain_id,
        "gasLimit": route.gas_units.saturating_mul(2).to_string(),
    });
    Ok((200, json!({ "requestId": request_id(), "swap": transaction })))
}

fn read_permit(permit: &Value) -> Result<PermitSingle, HttpAnswer> {
    let values = at(permit, &["values"]).ok_or_else(|| invalid("\"permitData.values\" is missing"))?;
    let details = at(values, &["details"]).ok_or_else(|| invalid("\"permitData.values.details\" is missing"))?;
    let sized = |name| digits(details, name).map(|number| number.saturating_to::<u64>());
    Ok(PermitSingle {
        details: PermitDetails {
            token: address(details, "token")?,
            amount: digits(details, "amount")?.saturating_to(),
            expiration: sized("expiration")?.try_into().map_err(|_| invalid("\"expiration\" is not a time"))?,
            nonce: sized("nonce")?.try_into().map_err(|_| invalid("\"nonce\" is not a number"))?,
        },
        spender: address(values, "spender")?,
        sigDeadline: digits(values, "sigDeadline")?,
    })
}

/// Handles `GET /swaps`.
pub(super) async fn swaps(sandbox: &Sandbox, query: &[(String, String)]) -> Result<HttpAnswer, HttpAnswer> {
    let of = |name: &str| query.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str());
    let asked = of("txHashes").filter(|asked| !asked.is_empty()).ok_or_else(|| invalid("\"txHashes\" is missing"))?;
    let chain_id = of("chainId").map_or(Ok(1), str::parse).map_err(|_| invalid("\"chainId\" is not a number"))?;
    let access = ChainAccess::open(sandbox, chain_id)?;
    let provider = access.client.provider();
    let mut found = Vec::new();
    for hash in asked.split(',').take(MOST_HASHES) {
        let hash = B256::from_str(hash).map_err(|_| invalid("a transaction hash is invalid"))?;
        let silent = |_| ill(&"the chain does not respond");
        let status = match provider.get_transaction_receipt(hash).await.map_err(silent)? {
            Some(receipt) if receipt.status() => SwapStatus::Success,
            Some(_) => SwapStatus::Failed,
            None if provider.get_transaction_by_hash(hash).await.map_err(silent)?.is_some() => SwapStatus::Pending,
            None => SwapStatus::NotFound,
        };
        found.push(json!({ "swapType": "CLASSIC", "status": status.word(), "txHash": hash }));
    }
    Ok((200, json!({ "requestId": request_id(), "swaps": found })))
}
