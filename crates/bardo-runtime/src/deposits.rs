//! Deposits of an account with a bridge's pool, from the logs of both chains, for display. Nothing is written or signed.

use alloy::primitives::{Address, B256, U256};
use alloy::providers::Provider as _;

use bardo_base::error::ToolError;
use bardo_base::fabric::TxPlace;
use bardo_base::text::SafeText;
use bardo_base::units::TokenAmount;
use bardo_session::handle::{DepositRow, DepositStage, DepositsState};
use golem_chain::provider::ProviderError;
use golem_protocols::across::address_of;
use golem_protocols::across::event::FillKind;
use golem_tools::across::{DepositState, KnownDeposit, own_deposits, own_transactions};
use golem_tools::engine::{ConnectedChain, ToolEnvironment};

/// Maximum length of a name, in characters.
const NAME: usize = 60;
/// Maximum length of an error or a remark, in characters.
const NOTE: usize = 300;

/// Reads the deposits that `account` made in the last days by transactions of this ledger, from all chains.
pub async fn read(world: &ToolEnvironment, account: Address) -> DepositsState {
    let mut state = DepositsState::default();
    for chain in world.chains() {
        match of_chain(world, chain, account).await {
            Ok(rows) => state.rows.extend(rows),
            Err(error) => {
                let words = format!("{}: {}", chain.network(), error.message());
                state.fault = Some(SafeText::clean(&words, NOTE));
            }
        }
    }
    state.rows.sort_by(|one, other| (other.deposited_at, &other.id).cmp(&(one.deposited_at, &one.id)));
    state
}

/// Number of transactions of this ledger that called a bridge's pool in the last days; a chain whose ledger cannot be read
/// counts as none.
pub fn sent(world: &ToolEnvironment) -> usize {
    world.chains().iter().map(|chain| own_transactions(world, chain).map_or(0, |sent| sent.len())).sum()
}

async fn of_chain(
    world: &ToolEnvironment,
    chain: &ConnectedChain,
    account: Address,
) -> Result<Vec<DepositRow>, ToolError> {
    let known = own_deposits(world, chain, account).await?;
    let mut rows = Vec::with_capacity(known.len());
    for deposit in &known {
        rows.push(row(world, chain, deposit).await?);
    }
    Ok(rows)
}

const fn stage(deposit: &KnownDeposit) -> DepositStage {
    match (deposit.state, deposit.fill_kind) {
        (DepositState::Pending, _) => DepositStage::Waiting,
        (DepositState::SlowFillRequested, _) => DepositStage::SlowFillAsked,
        (DepositState::Filled, Some(FillKind::Slow)) => DepositStage::FilledSlowly,
        (DepositState::Filled, Some(FillKind::Fast | FillKind::ReplacedSlow) | None) => DepositStage::Filled,
        (DepositState::Expired, _) => DepositStage::Expired,
        (DepositState::Refunded, _) => DepositStage::Refunded,
        (DepositState::Unclear, _) => DepositStage::Unclear,
    }
}

async fn row(
    world: &ToolEnvironment,
    source: &ConnectedChain,
    deposit: &KnownDeposit,
) -> Result<DepositRow, ToolError> {
    let (relay, network) = (&deposit.relay, source.network());
    let (hash, number) = deposit.deposited;
    let block = source.client.agreed().get_block(number.into()).await.map_err(ProviderError::from)?;
    let destination = world.chain(&deposit.destination_chain_id.to_string()).ok();
    let given = Coin::of(Some(source), relay.inputToken).await;
    let wanted = Coin::of(destination, relay.outputToken).await;
    let name =
        destination.map_or_else(|| deposit.destination_chain_id.to_string(), |chain| chain.network().name.clone());
    let place = |chain_id: u64, hash: Option<B256>| hash.map(|hash| TxPlace { chain_id, hash, block: None });
    Ok(DepositRow {
        id: SafeText::clean(&relay.depositId.to_string(), NAME),
        source_chain: SafeText::clean(&network.name, NAME),
        destination_chain: SafeText::clean(&name, NAME),
        stage: stage(deposit),
        amount_in: given.amount(relay.inputAmount),
        amount_asked: wanted.amount(relay.outputAmount),
        amount_received: deposit
            .received
            .filter(|_| deposit.state == DepositState::Filled)
            .map(|amount| wanted.amount(amount)),
        token_in: given.name,
        token_out: wanted.name,
        fill_deadline: relay.fillDeadline.into(),
        deposited_at: block.map_or(0, |block| block.header.timestamp.saturating_mul(1_000)),
        deposited: TxPlace { chain_id: network.chain_id, hash, block: Some(number) },
        slow_fill_asked: place(deposit.destination_chain_id, deposit.slow_fill_asked_by),
        filled: place(deposit.destination_chain_id, deposit.filled_by),
        relayer: deposit
            .relayer
            .map(|word| SafeText::clean(&address_of(word).map_or(word.to_string(), |at| at.to_string()), NAME)),
        refunded: place(network.chain_id, deposit.refunded_by),
        remark: SafeText::clean(deposit.remark.unwrap_or_default(), NOTE),
    })
}

/// Name and decimals of a token.
struct Coin {
    name: SafeText,
    decimals: Option<u8>,
}

impl Coin {
    /// Reads a token of a chain. One that is not listed is named by its address, and one whose chain does not answer has no
    /// decimals.
    async fn of(chain: Option<&ConnectedChain>, word: B256) -> Self {
        let address = address_of(word);
        let place = address.map_or(word.to_string(), |address| address.to_string());
        let info = match (chain, address) {
            (Some(chain), Some(address)) => chain.token(&address.to_string()).await.ok(),
            _ => None,
        };
        let name = match &info {
            Some(info) if info.listed => info.symbol.clone(),
            _ => SafeText::clean(&place, NAME),
        };
        Self { name, decimals: info.map(|info| info.decimals) }
    }

    fn amount(&self, raw: U256) -> String {
        let whole = self.decimals.and_then(|decimals| TokenAmount::new(raw, decimals).ok());
        whole.map_or_else(|| format!("{raw} raw units"), |amount| amount.to_string())
    }
}
