//! Sample replies of the tools that read custody.

use serde_json::{Value, json};

/// Account of the samples.
const ACCOUNT: &str = "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266";

/// Data of `wallet_get_status`.
pub fn status_reply(provider: &str) -> Value {
    let chain = |name: &str, kind: &str, delegate: Option<&str>| {
        json!({
            "chain": name, "chain_id": 31_337, "block_number": 1290, "native_balance": "1.3735", "native_usd": "4687.08",
            "token_count": 3, "unpriced": 0, "total_usd": "25310.42", "nonce": 41, "account_type": kind,
            "delegate": delegate, "pending_transactions": 0,
        })
    };
    json!({
        "provider": provider, "address": ACCOUNT, "account_type": "eip7702", "total_usd": "50620.84",
        "balances": [chain("ethereum", "eip7702", Some("EIP7702StatelessDeleGator")), chain("base", "eoa", None)],
        "not_read": [], "active_session_keys": 1, "pending_transactions": 0, "policy_summary": null,
    })
}

/// Data of `session_get_keys`: one key that can act until `ends`, and one that is revoked. `label` stands for outside text.
pub fn keys_reply(label: &str, ends: &str) -> Value {
    let key = |id: &str, state: &str, accepted: Option<bool>| {
        json!({
            "key_id": id, "label": label, "state": state, "address": "0x70997970C51812dc3A010C7d01b50e0d17dc79C8",
            "owner": ACCOUNT, "chain_id": 31_337, "created_at": "2023-11-14 20:00:00Z", "expires_at": ends,
            "permissions": [{"contract": "0x66a9893cC07D91D95644AEDD05D03f95e1dBA8Af", "methods": [], "chains": [31_337]}],
            "limits": ["calls only the Universal Router", "spends at most 500 USDC"], "usage_count": 3, "max_calls": 20,
            "last_used": "2023-11-14 21:40:00Z", "accepted_on_chain": accepted, "on_chain_problem": null, "ledger": "demo",
        })
    };
    json!({
        "keys": [key("0a1b", "revoked", None), key("7c1e", "active", Some(true))], "total": 2, "active": 1, "unreadable": [],
    })
}

/// Data of `wallet_get_delegation` of an account that runs the delegation framework's code.
pub fn delegation_reply() -> Value {
    let used = |hash: &str, in_force: bool, revoked: bool, ends: Option<u64>| {
        json!({
            "hash": hash, "delegate": "0x70997970C51812dc3A010C7d01b50e0d17dc79C8", "in_force": in_force,
            "revoked": revoked, "expires_at": ends, "limits": ["calls only the Universal Router"], "permits": null,
            "not_understood": null,
        })
    };
    json!({
        "chain": "ethereum", "account": ACCOUNT, "delegated": true,
        "delegate_address": "0x63c0c19a282a1B52b07dD5a65b58948A07DAE32B",
        "delegate_label": "EIP7702StatelessDeleGator", "understood": true, "paused": false,
        "permissions": [used("0x01", true, false, Some(super::START + 3_600)), used("0x02", false, true, None)],
        "expires_at": super::START + 3_600, "searched_from_block": 0, "searched_to_block": 1290, "complete": true,
        "unseen": "delegations that were never used",
    })
}

/// Data of `get_allowances`: one without a limit to an unknown spender named `symbol` in its token, and one in Permit2.
pub fn allowances_reply(symbol: &str) -> Value {
    json!({
        "chain": "ethereum", "account": ACCOUNT, "searched_from_block": 0, "searched_to_block": 1290, "complete": true,
        "unread_of_strangers": 0, "value_at_risk_usd": "6212.5",
        "allowances": [
            {
                "token": symbol, "token_address": "0x1f9840a85d5aF5bf1D1762F925BDADdC4201F984",
                "spender": "0x00000000000000000000000000000000DeaDBeef", "spender_label": null, "kept_by": "token",
                "allowance": "0", "unlimited": true, "expires_at": null, "at_risk": "6120", "at_risk_usd": "6120",
            },
            {
                "token": "USDC", "token_address": "0xA0b86991c6218b36c1d19D4a2e9Eb0cE3606eB48",
                "spender": "0x66a9893cC07D91D95644AEDD05D03f95e1dBA8Af", "spender_label": "Universal Router",
                "kept_by": "permit2", "allowance": "92.5", "unlimited": false, "expires_at": super::START + 300,
                "at_risk": "92.5", "at_risk_usd": "92.5",
            },
        ],
    })
}
