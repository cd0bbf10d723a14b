//! Conversion of a caller's swap parameters into a route request. Shared by the tools that quote, assess and execute
//! swaps.

use std::collections::BTreeMap;
use std::sync::Arc;

use alloy::eips::BlockId;
use alloy::primitives::{Address, U256, U512};
use serde_json::{Value, json};

use crate::allowances::routers;
use crate::engine::{CallContext, ConnectedChain, ToolEnvironment};
use crate::shared::invalid;
use bardo_abi::erc20::Erc20;
use bardo_base::error::{ErrorCode, ToolError};
use bardo_base::units::{BasisPoints, TokenAmount};
use golem_chain::multicall::CallBatch;
use golem_chain::network::KnownContract;
use golem_chain::token::{self, TokenId, TokenInfo};
use golem_protocols::uniswap::discovery::{PoolSnapshot, TickReach};
use golem_protocols::uniswap::pool::FixedAmount;
use golem_protocols::uniswap::quote::{NOBODY, QuoteRequest, QuotedRoute, SourceClaim};
use golem_protocols::uniswap::ratio::Ratio;
use golem_protocols::uniswap::router::RouterVersion;
use golem_protocols::uniswap::routing::{GasCost, Route, RouteRequest};

/// Default slippage of a swap or an order, in basis points. Phase and policy may lower it.
const USUAL_SLIPPAGE: u32 = 50;

/// Returns the slippage of a call: the given value, which the slippage guard checks later, or a default that passes the
/// guard.
///
/// # Errors
/// `VALIDATION_FAILED` if the value exceeds 10,000 basis points.
pub(super) fn slippage(context: &CallContext, asked: Option<u32>) -> Result<BasisPoints, ToolError> {
    let points = |points| BasisPoints::new(points).map_err(|error| invalid("slippage_bps", &error));
    match asked {
        Some(asked) => points(asked),
        None => {
            points(USUAL_SLIPPAGE).map(|usual| context.conditions().max_slippage.map_or(usual, |most| usual.min(most)))
        }
    }
}

/// Serde default of `prefer_uniswapx`.
pub(super) const fn yes() -> bool {
    true
}

/// Requested swap with resolved tokens.
pub(super) struct SwapQuery<'a> {
    /// Chain of the swap.
    pub(super) chain: &'a ConnectedChain,
    /// Token that the swap pays.
    pub(super) token_in: TokenInfo,
    /// Token that the swap receives.
    pub(super) token_out: TokenInfo,
    /// Contract that pools take for `token_in`: the token, or the wrapped native token.
    pub(super) contract_in: Address,
    /// Contract that pools pay for `token_out`: the token, or the wrapped native token.
    pub(super) contract_out: Address,
    /// Fixed amount, in raw units.
    pub(super) exact: FixedAmount,
    /// Slippage tolerance of the other amount.
    pub(super) slippage: BasisPoints,
}

/// Route with its pools, the gas price and the quote source's claim.
pub(super) struct FoundRoute {
    /// Best route after gas.
    pub(super) route: Route,
    /// Pools that the route was computed on.
    pub(super) snapshot: Arc<PoolSnapshot>,
    /// Gas price in wei.
    pub(super) gas_price: u128,
    /// Claim of the quote source; `None` for Bardo's own router.
    pub(super) claim: Option<SourceClaim>,
}

impl FoundRoute {
    /// Describes the quote source and its result relative to Bardo's own router, as JSON.
    pub(super) fn source(&self, world: &ToolEnvironment) -> Value {
        let Some(claim) = &self.claim else { return json!({ "name": world.quotes.name() }) };
        json!({
            "name": world.quotes.name(),
            "claimed_raw": claim.claimed.to_string(),
            "own_router_raw": claim.own.map(|own| own.to_string()),
            "ahead_of_own_router_bps": claim.ahead_bps,
        })
    }

    /// Describes the quote source and its result relative to Bardo's own router, as a sentence; empty for the own
    /// router.
    pub(super) fn describe(&self, world: &ToolEnvironment) -> String {
        let Some(claim) = &self.claim else { return String::new() };
        let name = world.quotes.name();
        match claim.ahead_bps {
            Some(0) => format!(" The route is {name}'s, equal to Bardo's own router after gas."),
            Some(ahead) if ahead > 0 => {
                format!(" The route is {name}'s, {ahead} bps better than Bardo's own router after gas.")
            }
            Some(behind) => {
                format!(
                    " The route is {name}'s, {} bps worse than Bardo's own router after gas.",
                    behind.unsigned_abs()
                )
            }
            None => format!(" The route is {name}'s; Bardo's own router found none."),
        }
    }
}

impl<'a> SwapQuery<'a> {
    /// Resolves the tokens and parses the amount: whole tokens of `token_out` for an exact output, otherwise of
    /// `token_in`. `max` means the wallet's whole balance of `token_in`.
    ///
    /// # Errors
    /// `VALIDATION_FAILED` for an invalid amount, `CHAIN_UNSUPPORTED` without a wrapped native token, and the errors of
    /// resolving tokens and reading the balance.
    pub(super) async fn new(
        world: &ToolEnvironment,
        chain: &'a ConnectedChain,
        [token_in, token_out]: [&str; 2],
        amount: &str,
        exact_output: bool,
    ) -> Result<Self, ToolError> {
        let (token_in, token_out) = futures::try_join!(chain.token(token_in), chain.token(token_out))?;
        let network = chain.network();
        let contract = |token: &TokenInfo| {
            token.contract(network).ok_or_else(|| {
                ToolError::new(
                    ErrorCode::ChainUnsupported,
                    format_args!("the address book of {network} has no wrapped {}", token.symbol),
                )
            })
        };
        let (contract_in, contract_out) = (contract(&token_in)?, contract(&token_out)?);
        let exact = if exact_output {
            if amount.trim().eq_ignore_ascii_case("max") {
                return Err(ToolError::new(
                    ErrorCode::ValidationFailed,
                    "parameter `amount`: \"max\" means the amount to pay; give a number for an exact output",
                )
                .detail("parameter", "amount"));
            }
            FixedAmount::Out(TokenAmount::parse(amount, token_out.decimals)?.raw())
        } else if amount.trim().eq_ignore_ascii_case("max") {
            FixedAmount::In(balance(world, chain, &token_in).await?)
        } else {
            FixedAmount::In(TokenAmount::parse(amount, token_in.decimals)?.raw())
        };
        let slippage = BasisPoints::new(USUAL_SLIPPAGE).unwrap_or(BasisPoints::ZERO);
        Ok(Self { chain, token_in, token_out, contract_in, contract_out, exact, slippage })
    }

    /// Sets the slippage tolerance.
    pub(super) fn within(mut self, slippage: BasisPoints) -> Self {
        self.slippage = slippage;
        self
    }

    /// Sets the amount to the whole native balance minus `wei`, which is reserved for gas.
    ///
    /// # Errors
    /// `VALIDATION_FAILED` if nothing is left.
    pub(super) fn leaving(&mut self, balance: U256, wei: U256) -> Result<(), ToolError> {
        let left = balance.checked_sub(wei).filter(|left| !left.is_zero()).ok_or_else(|| {
            let (held, gas) = (TokenAmount::ether(balance), TokenAmount::ether(wei));
            ToolError::new(
                ErrorCode::ValidationFailed,
                format_args!("parameter `amount`: the wallet holds {held}, and gas may cost {gas}"),
            )
            .detail("parameter", "amount")
        })?;
        self.exact = FixedAmount::In(left);
        Ok(())
    }

    /// Finds the best route after gas at the latest block. Returns it with its pools and the gas price in wei.
    ///
    /// # Errors
    /// `ROUTING_NO_ROUTE` and `ROUTING_INSUFFICIENT_LIQUIDITY` name the tokens; errors of the chain and the quote
    /// source are passed on.
    pub(super) async fn route(&self, world: &ToolEnvironment) -> Result<(Route, Arc<PoolSnapshot>, u128), ToolError> {
        let FoundRoute { route, snapshot, gas_price, .. } = self.find_route(world).await?;
        Ok((route, snapshot, gas_price))
    }

    /// Finds the best route like [`SwapQuery::route`], with the quote source's claim.
    pub(super) async fn find_route(&self, world: &ToolEnvironment) -> Result<FoundRoute, ToolError> {
        self.nameless_route(world).await.map_err(|error| self.name_tokens(error))
    }

    async fn nameless_route(&self, world: &ToolEnvironment) -> Result<FoundRoute, ToolError> {
        let pools = self.chain.pools()?;
        let tokens = [self.contract_in, self.contract_out];
        let gas_price = async { Ok::<_, ToolError>(self.chain.client.gas_price().await?) };
        let near = async { Ok::<_, ToolError>(pools.pools(&tokens, BlockId::latest(), TickReach::Near).await?) };
        let (gas_price, near) = futures::try_join!(gas_price, near)?;
        let mut request = RouteRequest::new(self.contract_in, self.contract_out, self.exact);
        let known = routers(self.chain);
        // Every router of the address book has the V4 commands.
        request.v4 = !known.is_empty();
        request.pays_native = self.token_in.id == TokenId::Native;
        // Gas is valued in the token whose amount is open.
        let open = match self.exact {
            FixedAmount::In(_) => self.contract_out,
            FixedAmount::Out(_) => self.contract_in,
        };
        let wrapped = self.chain.network().book.contract(KnownContract::WrappedNative);
        request.gas = wrapped
            .and_then(|wrapped| near.pools.token_per_native(wrapped, open))
            .and_then(|price| GasCost::new(gas_price, &price));
        let router_version = known.first().map_or(RouterVersion::V2_0, |(_, version)| *version);
        let routers: Vec<Address> = known.into_iter().map(|(router, _)| router).collect();
        let ask = QuoteRequest {
            pools,
            request: &request,
            coin: [&self.token_in, &self.token_out].map(|token| token.id == TokenId::Native),
            block: BlockId::from(near.block_hash),
            chain_id: self.chain.network().chain_id,
            swapper: world.account.unwrap_or(NOBODY),
            decimals: [self.token_in.decimals, self.token_out.decimals],
            slippage: self.slippage,
            permit2: self.chain.network().book.contract(KnownContract::Permit2),
            routers: &routers,
            router_version,
        };
        let QuotedRoute { route, snapshot, claim } = world.quotes.quote(&ask).await?;
        Ok(FoundRoute { route, snapshot, gas_price, claim })
    }

    /// Replaces a routing error by one that names the tokens. The router knows only addresses.
    fn name_tokens(&self, error: ToolError) -> ToolError {
        // Errors of another quote source already describe the failure.
        if error.details().contains_key("source") {
            return error;
        }
        let (paid, received) = (&self.token_in.symbol, &self.token_out.symbol);
        let network = self.chain.network();
        let message = match error.code() {
            ErrorCode::RoutingNoRoute => {
                format!("no route of Uniswap pools leads from {paid} to {received} on {network}")
            }
            ErrorCode::RoutingInsufficientLiquidity => {
                format!("the pools from {paid} to {received} on {network} have too little liquidity for this amount")
            }
            _ => return error,
        };
        ToolError::new(error.code(), message)
            .detail("token_in", self.contract_in.to_string())
            .detail("token_out", self.contract_out.to_string())
    }

    /// Returns the symbols of all tokens on the route: as requested, from the token list, or read from the contract.
    pub(super) async fn symbols(&self, route: &Route) -> Result<BTreeMap<Address, String>, ToolError> {
        let network = self.chain.network();
        let mut symbols: BTreeMap<Address, String> =
            network.book.tokens().iter().map(|token| (token.address, token.symbol.clone())).collect();
        // The native token moves through pools as its wrapped token, under that symbol.
        for (token, address) in [(&self.token_in, self.contract_in), (&self.token_out, self.contract_out)] {
            if token.id != TokenId::Native {
                symbols.insert(address, token.symbol.to_string());
            }
        }
        let passed = route.legs.iter().flat_map(|leg| leg.hops.iter().map(|hop| hop.token_out));
        let unknown: Vec<Address> = passed.filter(|address| !symbols.contains_key(address)).collect();
        if !unknown.is_empty() {
            let read = token::read(&unknown, network, self.chain.client.agreed()).await?;
            for (address, token) in unknown.into_iter().zip(read) {
                symbols.insert(address, token.map_or_else(|_| address.to_string(), |token| token.symbol.to_string()));
            }
        }
        Ok(symbols)
    }
}

/// Least amount that `paid` must bring at a price of `per_unit` raw units for each whole unit of a token with these
/// decimals, in raw units, rounded up.
pub(super) fn least_received(per_unit: U256, paid: U256, decimals: u8) -> U256 {
    let unit = U512::from(U256::from(10).checked_pow(U256::from(decimals)).unwrap_or(U256::MAX));
    U512::from(per_unit).saturating_mul(U512::from(paid)).div_ceil(unit).saturating_to()
}

/// Returns the wallet's whole balance of a token, in raw units.
async fn balance(world: &ToolEnvironment, chain: &ConnectedChain, token: &TokenInfo) -> Result<U256, ToolError> {
    let owner = world.account(None)?;
    let held = match token.id {
        TokenId::Native => chain.native_balance(owner).await?,
        TokenId::Erc20(address) => {
            let mut calls = CallBatch::default();
            let held = calls.push(address, &Erc20::balanceOfCall { owner });
            let answers = chain.ask(calls).await?;
            held.take(&answers).ok_or_else(|| {
                ToolError::new(ErrorCode::TokenInvalid, format_args!("{} does not respond to balanceOf", token.symbol))
            })?
        }
    };
    world.balance(chain.network().chain_id, owner, token.id, held)
}

/// Price of one whole `paid` token in whole `out` tokens; `None` if `paid` is zero.
pub(super) fn price_between(paid: &TokenAmount, out: &TokenAmount) -> Option<Ratio> {
    let ten = |decimals: u8| U256::from(10).checked_pow(U256::from(decimals));
    let whole = |amount: &TokenAmount| Ratio::of(amount.raw(), ten(amount.decimals())?);
    whole(out)?.over(&whole(paid)?)
}

#[cfg(test)]
mod tests {
    use alloy::primitives::U256;

    use super::least_received;

    #[test]
    fn the_bound_of_a_price_is_rounded_up() {
        // 0.0003 WETH for one USDC: 333 millionths of a USDC must bring 99.9 billionths of a WETH.
        let least = |per_unit: u64, paid: u64| least_received(U256::from(per_unit), U256::from(paid), 6);
        assert_eq!(least(300_000_000_000_000, 333), U256::from(99_900_000_000_u64));
        assert_eq!(least(1, 333), U256::from(1), "a part of a unit counts as one");
        assert_eq!(least(1, 2_000_000), U256::from(2));
        assert_eq!(least(0, 333), U256::ZERO);
        let huge = least_received(U256::MAX, U256::from(2_000_000), 6);
        assert_eq!(huge, U256::MAX, "out of reach, and not wrapped round to little");
    }
}
