//! Identifiers of the screens. They stand apart, because key bindings name screens and screens use key bindings.

/// Identifier of a screen, in the order of the tabs: first those with a digit, then those with a letter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ScreenId {
    /// 1: live view of the Golem.
    Live,
    /// 2: trading tools, used manually.
    Trade,
    /// 3: auction orders and bridge orders.
    Orders,
    /// 4: holdings and allowances.
    Portfolio,
    /// 5: offers, decisions, standing approvals and the audit log.
    Audit,
    /// 6: tool catalog.
    Tools,
    /// 7: chains, pools and the controls of the devnet.
    Network,
    /// 8: one line per event.
    Logs,
    /// 9: unconfirmed transactions and open orders.
    Transactions,
    /// 0: registered agents.
    Agents,
    /// i: liquidity positions, supplies, debts and shares.
    Positions,
    /// d: pools of a token with their depth.
    Pools,
    /// c: account, session keys, delegations and allowances.
    Custody,
}

impl ScreenId {
    /// All screens, in the order of their tabs.
    pub const ALL: [Self; 13] = [
        Self::Live,
        Self::Trade,
        Self::Orders,
        Self::Portfolio,
        Self::Audit,
        Self::Tools,
        Self::Network,
        Self::Logs,
        Self::Transactions,
        Self::Agents,
        Self::Positions,
        Self::Pools,
        Self::Custody,
    ];

    /// Key that switches to the screen: a digit, or a letter.
    pub const fn key(self) -> char {
        match self {
            Self::Live => '1',
            Self::Trade => '2',
            Self::Orders => '3',
            Self::Portfolio => '4',
            Self::Audit => '5',
            Self::Tools => '6',
            Self::Network => '7',
            Self::Logs => '8',
            Self::Transactions => '9',
            Self::Agents => '0',
            Self::Positions => 'i',
            Self::Pools => 'd',
            Self::Custody => 'c',
        }
    }

    /// Display name of the screen.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Live => "Live",
            Self::Trade => "Trade",
            Self::Orders => "Orders",
            Self::Portfolio => "Portfolio",
            Self::Audit => "Audit",
            Self::Tools => "Tools",
            Self::Network => "Network",
            Self::Logs => "Logs",
            Self::Transactions => "Transactions",
            Self::Agents => "Agents",
            Self::Positions => "Positions",
            Self::Pools => "Pools",
            Self::Custody => "Custody",
        }
    }
}
