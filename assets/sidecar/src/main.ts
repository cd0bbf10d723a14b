// Answers questions for quotes with Uniswap's smart-order-router.
//
// One connection carries one question and one answer, each a line of JSON:
//   {id, method: "quote", chainId, tokenIn: {address, decimals}, tokenOut: {address, decimals}, amount, tradeType}
//   {id, quote} or {id, error: {code, detail}}
// The quote has the shape of a classic quote of Uniswap's Trading API. It names pools and amounts; whoever asks counts
// them anew, so nothing here builds calldata or knows an account.
//
// Start: npm ci && npm start -- --socket /run/bardo/sidecar.sock --rpc http://127.0.0.1:8545 [--rpc ...]

import { existsSync, lstatSync, unlinkSync } from 'node:fs';
import { createConnection, createServer, type Socket } from 'node:net';

import { Protocol } from '@uniswap/router-sdk';
import { CurrencyAmount, Token, TradeType, type ChainId } from '@uniswap/sdk-core';
import {
  AlphaRouter,
  StaticGasPriceProvider,
  StaticV2SubgraphProvider,
  StaticV3SubgraphProvider,
  UniswapMulticallProvider,
  V3PoolProvider,
} from '@uniswap/smart-order-router';
import { BigNumber, providers } from 'ethers';

/** The longest question, in bytes. */
const LONGEST = 16 * 1024;
/** A question has so long to arrive, and an answer so long to be found, in milliseconds. */
const PATIENCE = 12_000;

type Side = { address: string; decimals: number };
type Question = { id: string; chainId: number; tokenIn: Side; tokenOut: Side; amount: string; exactIn: boolean };

class Refusal extends Error {
  constructor(readonly code: string, detail: string) {
    super(detail);
  }
}

/** One chain and its router. */
class Desk {
  private constructor(readonly chainId: ChainId, readonly provider: providers.JsonRpcProvider) {}

  static async open(url: string): Promise<Desk> {
    const provider = new providers.StaticJsonRpcProvider(url);
    const { chainId } = await provider.getNetwork();
    return new Desk(chainId as ChainId, provider);
  }

  /** A router that knows the price of gas of now, and finds pools on chain rather than in somebody's index. */
  private async router(): Promise<AlphaRouter> {
    const multicall = new UniswapMulticallProvider(this.chainId, this.provider, 5_000_000);
    const v3PoolProvider = new V3PoolProvider(this.chainId, multicall);
    const price: BigNumber = await this.provider.getGasPrice();
    return new AlphaRouter({
      chainId: this.chainId,
      provider: this.provider,
      multicall2Provider: multicall,
      v3PoolProvider,
      v2SubgraphProvider: new StaticV2SubgraphProvider(this.chainId),
      v3SubgraphProvider: new StaticV3SubgraphProvider(this.chainId, v3PoolProvider),
      gasPriceProvider: new StaticGasPriceProvider(price),
    });
  }

  async quote(question: Question): Promise<unknown> {
    const token = (side: Side) => new Token(this.chainId, side.address, side.decimals);
    const [tokenIn, tokenOut] = [token(question.tokenIn), token(question.tokenOut)];
    const [given, open] = question.exactIn ? [tokenIn, tokenOut] : [tokenOut, tokenIn];
    const kind = question.exactIn ? TradeType.EXACT_INPUT : TradeType.EXACT_OUTPUT;
    const router = await this.router();
    const blockNumber = await this.provider.getBlockNumber();
    const amount = CurrencyAmount.fromRawAmount(given, question.amount);
    const found = await router.route(amount, open, kind, undefined, {
      blockNumber,
      protocols: [Protocol.V2, Protocol.V3],
      maxSwapsPerPath: 3,
      useCachedRoutes: false,
      writeToCachedRoutes: false,
    });
    if (!found) throw new Refusal('NO_ROUTE', 'the router finds no route for this amount');
    const raw = (amount: { quotient: { toString(): string } }) => amount.quotient.toString();
    const open_ = raw(found.quote);
    const [paid, received] = question.exactIn ? [question.amount, open_] : [open_, question.amount];
    return {
      chainId: this.chainId,
      blockNumber: found.blockNumber.toString(),
      tradeType: question.exactIn ? 'EXACT_INPUT' : 'EXACT_OUTPUT',
      input: { token: question.tokenIn.address, amount: paid },
      output: { token: question.tokenOut.address, amount: received },
      gasUseEstimate: found.estimatedGasUsed.toString(),
      route: found.route.map((leg) => {
        const [amountIn, amountOut] = question.exactIn
          ? [raw(leg.amount), raw(leg.quote)]
          : [raw(leg.quote), raw(leg.amount)];
        const tokens = leg.tokenPath.map((currency) => currency.wrapped);
        const last = leg.poolIdentifiers.length - 1;
        return leg.poolIdentifiers.map((address, at) => ({
          type: leg.protocol === Protocol.V2 ? 'v2-pool' : leg.protocol === Protocol.V3 ? 'v3-pool' : 'mixed',
          address,
          tokenIn: { address: tokens[at]!.address, chainId: this.chainId },
          tokenOut: { address: tokens[at + 1]!.address, chainId: this.chainId },
          ...(at === 0 ? { amountIn } : {}),
          ...(at === last ? { amountOut } : {}),
        }));
      }),
    };
  }
}

type Words = Record<string, unknown>;

function parse(line: string): Words {
  try {
    return (JSON.parse(line) as Words | null) ?? {};
  } catch {
    throw new Refusal('BAD_REQUEST', 'the question is not JSON');
  }
}

function read(value: Words): Question {
  const bad = (what: string) => new Refusal('BAD_REQUEST', `"${what}" is missing or makes no sense`);
  const side = (name: string): Side => {
    const found = value[name] as Words | undefined;
    const { address, decimals } = found ?? {};
    if (typeof address !== 'string' || !/^0x[0-9a-fA-F]{40}$/.test(address)) throw bad(`${name}.address`);
    if (typeof decimals !== 'number' || !Number.isInteger(decimals) || decimals < 0 || decimals > 36) {
      throw bad(`${name}.decimals`);
    }
    return { address, decimals };
  };
  const { id, method, chainId, amount, tradeType } = value;
  if (typeof id !== 'string' || id.length > 100) throw bad('id');
  if (method !== 'quote') throw bad('method');
  if (typeof chainId !== 'number') throw bad('chainId');
  if (typeof amount !== 'string' || !/^[1-9][0-9]{0,76}$/.test(amount)) throw bad('amount');
  if (tradeType !== 'EXACT_INPUT' && tradeType !== 'EXACT_OUTPUT') throw bad('tradeType');
  const exactIn = tradeType === 'EXACT_INPUT';
  return { id, chainId, tokenIn: side('tokenIn'), tokenOut: side('tokenOut'), amount, exactIn };
}

async function answer(desks: Map<number, Desk>, line: string): Promise<unknown> {
  let id: string | null = null;
  try {
    const words = parse(line);
    if (typeof words.id === 'string' && words.id.length <= 100) id = words.id;
    const question = read(words);
    const desk = desks.get(question.chainId);
    if (!desk) throw new Refusal('CHAIN_UNKNOWN', `no endpoint was given for chain ${question.chainId}`);
    return { id, quote: await desk.quote(question) };
  } catch (error) {
    const code = error instanceof Refusal ? error.code : 'FAILED';
    const detail = error instanceof Error ? error.message.slice(0, 300) : 'unknown';
    return { id, error: { code, detail } };
  }
}

function serve(desks: Map<number, Desk>, connection: Socket): void {
  let heard = '';
  let taken = false;
  connection.setEncoding('utf8');
  connection.setTimeout(PATIENCE, () => connection.destroy());
  // Whoever goes away before the answer is nobody's concern.
  connection.on('error', () => connection.destroy());
  connection.on('data', (piece: string) => {
    if (taken) return;
    heard += piece;
    const end = heard.indexOf('\n');
    if (end < 0 && heard.length > LONGEST) {
      connection.destroy();
    } else if (end >= 0) {
      taken = true;
      void answer(desks, heard.slice(0, end)).then((said) => connection.end(`${JSON.stringify(said)}\n`));
    }
  });
}

/** A socket that a program which has ended left behind is taken away; one that answers is somebody's. */
async function free(path: string): Promise<void> {
  if (!existsSync(path)) return;
  if (!lstatSync(path).isSocket()) throw new Error(`${path} is there and is no socket`);
  const answers = await new Promise<boolean>((told) => {
    const probe = createConnection(path, () => {
      probe.destroy();
      told(true);
    });
    probe.on('error', () => told(false));
  });
  if (answers) throw new Error(`another program listens at ${path}`);
  unlinkSync(path);
}

async function main(): Promise<void> {
  const given = process.argv.slice(2);
  const all = (name: string) => given.flatMap((word, at) => (word === name && given[at + 1] ? [given[at + 1]!] : []));
  const [socket] = all('--socket');
  const urls = all('--rpc');
  if (!socket || urls.length === 0) {
    throw new Error('usage: npm start -- --socket PATH --rpc URL [--rpc URL ...]');
  }
  const desks = new Map<number, Desk>();
  for (const url of urls) {
    const desk = await Desk.open(url);
    desks.set(desk.chainId, desk);
  }
  await free(socket);
  // Only its user may ask, from the first moment on: each question costs the endpoint many calls.
  process.umask(0o177);
  const server = createServer((connection) => serve(desks, connection));
  server.listen(socket, () => {
    console.log(JSON.stringify({ socket, chains: [...desks.keys()] }));
  });
  const end = () => server.close(() => process.exit(0));
  process.on('SIGINT', end);
  process.on('SIGTERM', end);
}

main().catch((error: unknown) => {
  console.error(error instanceof Error ? error.message : error);
  process.exit(1);
});
