//! Faucet of the devnet in this process, as tools reach it.

use alloy::primitives::{Address, B256, U256};
use futures::future::BoxFuture;

use bardo_base::error::{ErrorCode, ToolError};
use bardo_sandbox::faucet::FaucetAsset;
use bardo_sandbox::{Sandbox, SandboxChain, SandboxError};
use golem_chain::network::Network;
use golem_chain::token::TokenId;
use golem_tools::engine::Faucet;

/// Faucet of a devnet's chains.
#[derive(Debug)]
pub struct DevnetFaucet {
    chains: Vec<SandboxChain>,
}

impl DevnetFaucet {
    /// Returns the faucet of a devnet.
    pub fn of(sandbox: &Sandbox) -> Self {
        Self { chains: sandbox.chains().to_vec() }
    }

    /// Chain and asset of a request.
    fn find(&self, network: &Network, token: TokenId, amount: U256) -> Result<(SandboxChain, FaucetAsset), ToolError> {
        let chain = self.chains.iter().find(|chain| chain.deployment.plan.chain_id == network.chain_id);
        let chain = chain
            .ok_or_else(|| ToolError::new(ErrorCode::ChainUnsupported, format_args!("{network} has no faucet")))?;
        let asset = match token {
            TokenId::Native => FaucetAsset::Ether(amount),
            TokenId::Erc20(address) => {
                let known = chain.deployment.tokens.iter().find(|(_, known)| **known == address);
                let (token, _) = known.ok_or_else(|| {
                    let what = format_args!("the faucet of {network} has no token {address}");
                    ToolError::new(ErrorCode::TokenNotFound, what)
                })?;
                FaucetAsset::Token(*token, amount)
            }
        };
        Ok((chain.clone(), asset))
    }
}

impl Faucet for DevnetFaucet {
    fn send(
        &self,
        network: &Network,
        token: TokenId,
        to: Address,
        amount: U256,
    ) -> BoxFuture<'_, Result<B256, ToolError>> {
        let found = self.find(network, token, amount);
        Box::pin(async move {
            let (chain, asset) = found?;
            let actors = chain.background_actors.clone();
            let sent = chain.devnet.run(move |chain| actors.give(chain, to, asset)).await;
            let refused = |error: &dyn std::fmt::Display| ToolError::new(ErrorCode::ChainUnreachable, error);
            let sent = sent.map_err(|error| refused(&error))?;
            let hash = sent.map_err(|error: SandboxError| refused(&error))?;
            hash.ok_or_else(|| refused(&"the faucet sent nothing"))
        })
    }
}
