// Inputs of the Universal Router's V4_SWAP by @uniswap/v4-sdk, for the trades on stdin: a JSON array of
// { version, tokens, pools: [{ fee, spacing }], exactOutput, amountIn, amountOut, payerIsUser, recipient, taken }.
//
// BARDO_SIDECAR is the folder with the packages. Prints a JSON array of hex strings, one for each trade.

const { createRequire } = require("node:module");
const { join } = require("node:path");
const { readFileSync } = require("node:fs");

const load = createRequire(join(process.env.BARDO_SIDECAR, "here.js"));
const { CurrencyAmount, Ether, Percent, Token, TradeType } = load("@uniswap/sdk-core");
const { Pool, Route, Trade, V4Planner } = load("@uniswap/v4-sdk");

const NATIVE = "0x0000000000000000000000000000000000000000";
// The price of one and its tick: encodings do not depend on them.
const ROOT_OF_ONE = (2n ** 96n).toString();

function currency(address) {
  return address === NATIVE ? Ether.onChain(1) : new Token(1, address, 18);
}

function input(trade) {
  const currencies = trade.tokens.map(currency);
  const pools = trade.pools.map(
    ({ fee, spacing }, at) => new Pool(currencies[at], currencies[at + 1], fee, spacing, NATIVE, ROOT_OF_ONE, 1, 0),
  );
  const [paid, bought] = [currencies[0], currencies[currencies.length - 1]];
  const made = Trade.createUncheckedTrade({
    route: new Route(pools, paid, bought),
    inputAmount: CurrencyAmount.fromRawAmount(paid, trade.amountIn),
    outputAmount: CurrencyAmount.fromRawAmount(bought, trade.amountOut),
    tradeType: trade.exactOutput ? TradeType.EXACT_OUTPUT : TradeType.EXACT_INPUT,
  });
  const planner = new V4Planner();
  planner.addTrade(made, new Percent(0), undefined, trade.version);
  planner.addSettle(paid, trade.payerIsUser);
  planner.addTake(bought, trade.recipient, trade.taken);
  return planner.finalize();
}

console.log(JSON.stringify(JSON.parse(readFileSync(0, "utf8")).map(input)));
