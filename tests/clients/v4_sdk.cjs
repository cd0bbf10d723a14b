// Encodings by @uniswap/v4-sdk, for a JSON array on stdin. For trades, inputs of the Universal Router's V4_SWAP:
// { version, tokens, pools: [{ fee, spacing }], exactOutput, amountIn, amountOut, payerIsUser, recipient, taken }.
// For changes of positions, calls of the position manager:
// { change, tokens, fee, spacing, hooks, lower, upper, tokenId, liquidity, amounts, account, deadline }.
//
// BARDO_SIDECAR is the folder with the packages. Prints a JSON array of hex strings, one for each trade.

const { createRequire } = require("node:module");
const { join } = require("node:path");
const { readFileSync } = require("node:fs");

const load = createRequire(join(process.env.BARDO_SIDECAR, "here.js"));
const { CurrencyAmount, Ether, Percent, Token, TradeType } = load("@uniswap/sdk-core");
const { Pool, Route, Trade, V4Planner, V4PositionManager, V4PositionPlanner } = load("@uniswap/v4-sdk");

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

function call(position) {
  const { change, tokens, fee, spacing, hooks, lower, upper, tokenId, liquidity, amounts, account, deadline } = position;
  const [first, second] = tokens.map(currency);
  const planner = new V4PositionPlanner();
  const take = () => planner.addTakePair(first, second, account);
  const sweep = () => first.isNative && planner.addSweep(first, account);
  if (change === "collect") {
    planner.addDecrease(tokenId, 0, 0, 0);
    take();
  } else if (change === "remove") {
    planner.addDecrease(tokenId, liquidity, ...amounts);
    take();
  } else if (change === "close") {
    planner.addBurn(tokenId, ...amounts);
    take();
  } else if (change === "mint") {
    const pool = new Pool(first, second, fee, spacing, hooks, ROOT_OF_ONE, 1, 0);
    planner.addMint(pool, lower, upper, liquidity, ...amounts, account);
    planner.addSettlePair(first, second);
    sweep();
  } else if (change === "increase") {
    planner.addIncrease(tokenId, liquidity, ...amounts);
    planner.addCloseCurrency(first);
    planner.addCloseCurrency(second);
    sweep();
  } else if (change === "compound") {
    planner.addIncrease(tokenId, liquidity, ...amounts);
    take();
  } else {
    throw new Error(`unknown change: ${change}`);
  }
  return V4PositionManager.encodeModifyLiquidities(planner.finalize(), deadline);
}

const encoded = (one) => (one.change ? call(one) : input(one));
console.log(JSON.stringify(JSON.parse(readFileSync(0, "utf8")).map(encoded)));
