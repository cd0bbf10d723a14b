//! Canonical encoding that a permit's hash covers. Every value is preceded by its length, every list by its count, and
//! every variant by its name, so that no two payloads share an encoding. Every struct is destructured by field name, so
//! that a new field does not compile until it is encoded here.

use alloy::primitives::{Address, B256, Keccak256, U256};

use super::permit::PermitBounds;
use super::proposal::{
    AllowanceBound, AllowanceKind, BridgeArrival, Inflow, Outflow, PlanLeg, Proposal, ReplacedTx, SignatureSlot,
    SignedOrder, TradeFigures,
};
use super::signing_payload::{FeeBound, PayloadLeg, PayloadOrder, PayloadSlot, SafePlan, SigningPayload};
use super::typed::TypedMessage;
use golem_chain::token::{TokenId, TokenInfo};

/// Domain separator, with the version of the encoding.
const DOMAIN: &[u8] = b"bardo permit binding 4";

/// Hash under construction (Keccak-256).
pub(super) struct BindingHash(Keccak256);

impl BindingHash {
    pub(super) fn new() -> Self {
        let mut binding = Self(Keccak256::new());
        binding.bytes(DOMAIN);
        binding
    }

    pub(super) fn finish(self) -> B256 {
        self.0.finalize()
    }

    pub(super) fn hash_of(&mut self, hash: B256) {
        self.bytes(hash.as_slice());
    }

    pub(super) fn framed(&mut self, payload: &SigningPayload) {
        self.proposal(payload.proposal());
        self.text(payload.kind().as_str());
        self.address(payload.signer());
        self.address(payload.payer());
        self.list(payload.legs(), Self::framed_leg);
        let order: Vec<&PayloadOrder> = payload.order().into_iter().collect();
        self.list(&order, |binding, PayloadOrder { message, signer }| {
            binding.message(message);
            binding.address(*signer);
        });
        self.fees(payload.fees());
        if let Some(SafePlan { nonce, threshold, executes }) = payload.safe() {
            self.text("safe");
            self.amount(*nonce);
            self.amount(*threshold);
            self.number((*executes).into());
        }
    }

    pub(super) fn bounds(&mut self, bounds: &PermitBounds) {
        let PermitBounds { outflows, inflows, allowances, fees, worst_gas } = bounds;
        self.list(outflows, Self::flow);
        self.list(inflows, Self::inflow);
        self.list(allowances, Self::allowance);
        self.fees(*fees);
        self.amount(*worst_gas);
    }

    fn proposal(&mut self, proposal: &Proposal) {
        let Proposal {
            chain_id,
            tool,
            call_id,
            golem_id,
            account,
            intent,
            legs,
            outflows,
            inflows,
            allowances,
            trade,
            recipients,
            order,
            files,
            replaces,
            arrival,
            expected_outcome,
        } = proposal;
        self.number(*chain_id);
        // The tool's other properties follow from its name and the program version.
        self.text(tool.name);
        self.text(&call_id.to_string());
        self.text(golem_id.as_str());
        self.address(*account);
        self.text(intent.as_str());
        self.list(legs, Self::leg);
        self.list(outflows, Self::flow);
        self.list(inflows, Self::inflow);
        self.list(allowances, Self::allowance);
        self.list(trade.as_slice(), Self::trade);
        self.list(recipients, |binding, recipient| binding.address(*recipient));
        self.list(order.as_slice(), |binding, order| {
            let SignedOrder { message, holder, arrival } = order.as_ref();
            binding.message(message);
            binding.address(*holder);
            binding.list(arrival.as_slice(), Self::arrival);
        });
        self.list(files, |binding, file| binding.bytes(file));
        self.list(replaces.as_slice(), |binding, replaced| {
            let ReplacedTx { hash, nonce, fees } = replaced;
            binding.hash_of(*hash);
            binding.number(*nonce);
            binding.fees(*fees);
        });
        self.list(arrival.as_slice(), |binding, arrival| binding.arrival(arrival));
        self.text(expected_outcome.as_str());
    }

    fn arrival(&mut self, arrival: &BridgeArrival) {
        let BridgeArrival { chain_id, token, at_least, expected } = arrival;
        self.number(*chain_id);
        self.token(token);
        self.amount(*at_least);
        self.amount(*expected);
    }

    fn leg(&mut self, leg: &PlanLeg) {
        let PlanLeg { purpose, to, value, data, gas_limit, slots } = leg;
        self.text(purpose.as_str());
        self.address(*to);
        self.amount(*value);
        self.bytes(data);
        self.number(*gas_limit);
        self.list(slots, |binding, SignatureSlot { offset, message }| {
            binding.number(*offset as u64);
            binding.message(message);
        });
    }

    fn framed_leg(&mut self, leg: &PayloadLeg) {
        let PayloadLeg { purpose, from, to, value, data, gas_limit, slots } = leg;
        self.text(purpose.as_str());
        self.address(*from);
        self.address(*to);
        self.amount(*value);
        self.bytes(data);
        self.number(*gas_limit);
        self.list(slots, |binding, PayloadSlot { offset, message, signer }| {
            binding.number(*offset as u64);
            binding.message(message);
            binding.address(*signer);
        });
    }

    fn message(&mut self, message: &TypedMessage) {
        self.text(message.kind());
        self.address(message.verifier());
        // The digest covers every field; the chain id is hashed separately.
        self.hash_of(message.digest(0));
    }

    fn fees(&mut self, fees: FeeBound) {
        let FeeBound { max_fee_per_gas, max_priority_fee_per_gas } = fees;
        self.amount(U256::from(max_fee_per_gas));
        self.amount(U256::from(max_priority_fee_per_gas));
    }

    fn flow(&mut self, flow: &Outflow) {
        let Outflow { token, amount } = flow;
        self.token(token);
        self.amount(*amount);
    }

    fn inflow(&mut self, inflow: &Inflow) {
        let Inflow { token, at_least, expected, recipient } = inflow;
        self.token(token);
        self.amount(*at_least);
        self.amount(*expected);
        self.address(*recipient);
    }

    fn allowance(&mut self, allowance: &AllowanceBound) {
        let AllowanceBound { token, spender, kind, at_most } = allowance;
        self.token(token);
        self.address(*spender);
        match kind {
            AllowanceKind::Erc20 => self.text("erc20"),
            AllowanceKind::Permit2 { expires_at } => {
                self.text("permit2");
                self.number(*expires_at);
            }
        }
        self.amount(*at_most);
    }

    fn trade(&mut self, trade: &TradeFigures) {
        let TradeFigures {
            token_in,
            token_out,
            amount_in,
            expected_out,
            min_out,
            slippage,
            price_impact,
            impact_reached,
            quoted_at,
            deadline,
            pools,
            exact_output,
        } = trade;
        self.token(token_in);
        self.token(token_out);
        self.amount(*amount_in);
        self.amount(*expected_out);
        self.amount(*min_out);
        self.number(slippage.get().into());
        self.number(price_impact.get().into());
        self.number(impact_reached.get().into());
        self.number(*quoted_at);
        self.number(*deadline);
        self.list(pools, |binding, pool| binding.address(*pool));
        self.number((*exact_output).into());
    }

    fn token(&mut self, token: &TokenInfo) {
        let TokenInfo { id, symbol, name, decimals, listed } = token;
        match id {
            TokenId::Native => self.text("native"),
            TokenId::Erc20(address) => {
                self.text("erc20");
                self.address(*address);
            }
        }
        self.text(symbol.as_str());
        self.text(name.as_str());
        self.number((*decimals).into());
        self.number((*listed).into());
    }

    fn list<T>(&mut self, items: &[T], mut each: impl FnMut(&mut Self, &T)) {
        self.number(items.len() as u64);
        for item in items {
            each(self, item);
        }
    }

    fn address(&mut self, address: Address) {
        self.bytes(address.as_slice());
    }

    fn amount(&mut self, amount: U256) {
        self.bytes(&amount.to_be_bytes::<32>());
    }

    fn number(&mut self, number: u64) {
        self.bytes(&number.to_be_bytes());
    }

    fn text(&mut self, text: &str) {
        self.bytes(text.as_bytes());
    }

    pub(super) fn bytes(&mut self, bytes: &[u8]) {
        self.0.update((bytes.len() as u64).to_be_bytes());
        self.0.update(bytes);
    }
}
