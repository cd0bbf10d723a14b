//! Named tool profiles and their categories.

use bardo_base::model::{Category, Profile};

/// Returns the categories of a profile. `full` excludes only test networks; `dev` contains every category.
pub const fn categories_of(profile: Profile) -> &'static [Category] {
    use Category::*;
    match profile {
        Profile::Data => &[Data, Identity],
        Profile::Trader => &[Data, Trading, Safety, Wallet],
        Profile::Lp => &[Data, Trading, Lp, Safety, Wallet],
        Profile::Vault => &[Data, Vault, Safety, Wallet],
        Profile::Fees => &[Data, Fees],
        Profile::Erc8004 => &[Data, Identity],
        Profile::Intelligence => &[Data, Intelligence],
        Profile::Observatory => &[Data, Intelligence, Identity, Memory],
        Profile::Learning => &[Data, Memory, SelfImprovement],
        Profile::Dashboard => &[Data, Intelligence],
        Profile::Full => &[
            Data,
            Trading,
            Lp,
            Vault,
            Safety,
            Identity,
            Memory,
            Streaming,
            Intelligence,
            Fees,
            SelfImprovement,
            Hook,
            Wallet,
        ],
        Profile::Dev => Category::ALL,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// Table from the specification, with the `wallet` category it adds.
    const TABLE: &str = "
        data:         data identity
        trader:       data trading safety wallet
        lp:           data trading lp safety wallet
        vault:        data vault safety wallet
        fees:         data fees
        erc8004:      data identity
        intelligence: data intelligence
        observatory:  data intelligence identity memory
        learning:     data memory self_improvement
        dashboard:    data intelligence
        full:         data trading lp vault safety identity memory streaming intelligence fees self_improvement hook wallet
        dev:          data trading lp vault safety identity memory streaming intelligence fees self_improvement hook wallet testnet
    ";

    #[test]
    fn profiles_are_those_of_the_documents() {
        let mut seen = 0;
        for line in TABLE.lines().filter(|line| !line.trim().is_empty()) {
            let (name, categories) = line.split_once(':').unwrap();
            let expected: BTreeSet<_> = categories.split_whitespace().collect();
            let found = categories_of(name.parse().unwrap());
            assert_eq!(found.iter().map(|category| category.as_str()).collect::<BTreeSet<_>>(), expected, "{name}");
            assert_eq!(found.len(), expected.len(), "{name}");
            seen += 1;
        }
        assert_eq!(seen, Profile::ALL.len());
    }
}
