//! Endpoints that lie about swaps: an event with another price, one that is missing, and a header with another time.

use serde_json::{Value, json};

use super::endpoints::Attack;

type Lie = Box<dyn Fn(&Value, &mut Value) + Send + Sync>;

/// The square-root price of every V3 swap, doubled: four times the price, or a quarter.
fn prices() -> Lie {
    Box::new(|asked, answer| {
        let Some(logs) = answer["result"].as_array_mut().filter(|_| asked["method"] == "eth_getLogs") else { return };
        for log in logs {
            let data = log["data"].as_str().unwrap_or_default().to_owned();
            // Five words: amounts, root, liquidity and tick. The root's first digits are zeros.
            if data.len() == 2 + 5 * 64 {
                let doubled = format!("{:0>64x}", u128::from_str_radix(&data[162..194], 16).unwrap_or(1) * 2);
                log["data"] = json!(format!("{}{doubled}{}", &data[..130], &data[194..]));
            }
        }
    })
}

/// No events at all.
fn events() -> Lie {
    Box::new(|asked, answer| {
        if asked["method"] == "eth_getLogs" && answer["result"].is_array() {
            answer["result"] = json!([]);
        }
    })
}

/// Headers of blocks an hour later than they were.
fn times() -> Lie {
    Box::new(|asked, answer| {
        let is_header = asked["method"] == "eth_getBlockByHash" || asked["method"] == "eth_getBlockByNumber";
        if let Some(time) = answer["result"]["timestamp"].as_str().filter(|_| is_header) {
            let time = u64::from_str_radix(time.trim_start_matches("0x"), 16).unwrap_or_default();
            answer["result"]["timestamp"] = json!(format!("{:#x}", time + 3_600));
        }
    })
}

fn history(attack: &Attack) -> Value {
    let params = json!({"token": "WETH", "quote": "USDC", "chain": "ethereum", "interval": "15m", "lookback": 4});
    attack.call("get_price_history", &params)
}

#[test]
fn a_lie_of_one_endpoint_of_three_is_in_no_candle() {
    for (lie, what) in [(prices(), "prices"), (events(), "events"), (times(), "times")] {
        let attack = Attack::new(3, 0, lie);
        let answer = history(&attack);
        assert_eq!(answer["status"], "success", "{what}: {answer:#}");
        attack.lying(false);
        let honest = history(&attack);
        assert_eq!(answer["data"]["candles"], honest["data"]["candles"], "{what}");
        assert_eq!(answer["data"]["agreed_by_endpoints"], true);
        assert_ne!(answer["data"]["swap_count"], 0, "{answer:#}");
    }
}

#[test]
fn two_endpoints_that_contradict_each_other_give_no_candles() {
    for lie in [prices(), events()] {
        let attack = Attack::new(2, 1, lie);
        let answer = history(&attack);
        assert_eq!(answer["error"]["code"], "CHAIN_INCONSISTENT", "{answer:#}");
    }
}

/// A chain with one endpoint rests on it, and the answer says so.
#[test]
fn candles_of_a_single_endpoint_are_labelled_so() {
    let attack = Attack::new(1, 0, events());
    attack.lying(false);
    assert_eq!(history(&attack)["data"]["agreed_by_endpoints"], false);
}
