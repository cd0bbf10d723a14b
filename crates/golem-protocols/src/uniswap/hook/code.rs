//! Properties of a hook's code, by its instructions. A simulation shows what a hook does in one block, for one sender; these
//! instructions say whether it could do otherwise elsewhere.

use alloy::primitives::{B256, keccak256};

/// Property of a hook's code for which a simulation says less.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum CodeTrait {
    /// There is no code: every call of the hook fails.
    NoCode,
    /// It calls other contracts, such as the pool manager.
    Calls,
    /// It runs code of another address, which may be exchanged: a proxy.
    RunsOtherCode,
    /// It creates contracts.
    Creates,
    /// It can remove itself.
    SelfDestructs,
    /// It reads who sends the transaction, or what it pays for gas: it can tell a simulation from a transaction.
    ReadsTransaction,
    /// It reads the block's time, number or producer.
    ReadsBlock,
}

impl CodeTrait {
    /// Name of the property, in snake case.
    pub const fn name(self) -> &'static str {
        match self {
            Self::NoCode => "no_code",
            Self::Calls => "calls",
            Self::RunsOtherCode => "runs_other_code",
            Self::Creates => "creates",
            Self::SelfDestructs => "self_destructs",
            Self::ReadsTransaction => "reads_transaction",
            Self::ReadsBlock => "reads_block",
        }
    }

    /// Returns true if the hook can behave otherwise than in any simulation.
    pub const fn defies_simulation(self) -> bool {
        match self {
            Self::RunsOtherCode | Self::SelfDestructs | Self::ReadsTransaction => true,
            Self::NoCode | Self::Calls | Self::Creates | Self::ReadsBlock => false,
        }
    }
}

/// Code of a hook.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HookCode {
    /// Hash of the code.
    pub hash: B256,
    /// Length of the code, in bytes.
    pub length: usize,
    /// Properties by its instructions, in order.
    pub traits: Vec<CodeTrait>,
}

impl HookCode {
    /// Reads runtime code. Data after the code may look like instructions, so a property may be named that is none; one that is
    /// there is always named.
    pub fn read(code: &[u8]) -> Self {
        let mut traits = Vec::new();
        if code.is_empty() {
            traits.push(CodeTrait::NoCode);
        }
        let mut at = 0;
        while let Some(instruction) = code.get(at) {
            let found = match instruction {
                0xf1 => Some(CodeTrait::Calls),
                0xf2 | 0xf4 => Some(CodeTrait::RunsOtherCode),
                0xf0 | 0xf5 => Some(CodeTrait::Creates),
                0xff => Some(CodeTrait::SelfDestructs),
                // ORIGIN, GASPRICE, GASLIMIT, BASEFEE, BLOBHASH, BLOBBASEFEE.
                0x32 | 0x3a | 0x45 | 0x48 | 0x49 | 0x4a => Some(CodeTrait::ReadsTransaction),
                // BLOCKHASH, COINBASE, TIMESTAMP, NUMBER, PREVRANDAO.
                0x40..=0x44 => Some(CodeTrait::ReadsBlock),
                _ => None,
            };
            traits.extend(found);
            // PUSH1 to PUSH32 carry 1 to 32 bytes of data.
            let data = if (0x60..=0x7f).contains(instruction) { usize::from(instruction - 0x5f) } else { 0 };
            at = at.saturating_add(1).saturating_add(data);
        }
        traits.sort_unstable();
        traits.dedup();
        Self { hash: keccak256(code), length: code.len(), traits }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By hand: PUSH2 0xf4ff is data; DELEGATECALL, TIMESTAMP and GASPRICE are instructions.
    #[test]
    fn instructions_are_told_from_data() {
        assert_eq!(HookCode::read(&[0x61, 0xf4, 0xff, 0x00]).traits, []);
        let found = HookCode::read(&[0x42, 0x60, 0xff, 0xf4, 0x3a]).traits;
        assert_eq!(found, [CodeTrait::RunsOtherCode, CodeTrait::ReadsTransaction, CodeTrait::ReadsBlock]);
        assert_eq!(HookCode::read(&[]).traits, [CodeTrait::NoCode]);
        // Code that ends in the middle of an instruction's data.
        assert_eq!(HookCode::read(&[0x7f, 0xf4]).traits, []);
    }
}
