// The npm package agent0-sdk with the registries of a running `bardo devnet`: an agent that it registers, and agents and
// feedback that Bardo wrote, in both directions.
//
// DEVNET is the first line of `bardo devnet`, BARDO_AGENT0 the folder with the package, ASKED a JSON object with the step
// and its parameters. Prints a JSON object.

import { createRequire } from "node:module";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const load = createRequire(join(process.env.BARDO_AGENT0, "here.js"));
const { SDK } = await import(pathToFileURL(load.resolve("agent0-sdk")).href);
const { mnemonicToAccount } = load("viem/accounts");
const { toHex } = load("viem");

const devnet = JSON.parse(process.env.DEVNET);
const [chain] = devnet.chains;
const asked = JSON.parse(process.env.ASKED);
const account = mnemonicToAccount(process.env.MNEMONIC, { addressIndex: asked.account });

const sdk = (more) =>
  new SDK({
    chainId: chain.chain_id,
    rpcUrl: chain.rpc,
    privateKey: toHex(account.getHdKey().privateKey),
    registryOverrides: {
      [chain.chain_id]: {
        IDENTITY: chain.contracts.identityRegistry,
        REPUTATION: chain.contracts.reputationRegistry,
      },
    },
    ...more,
  });

const steps = {
  // Registers an agent with its file on the chain.
  async register() {
    const agent = sdk().createAgent("Outside Agent", "Registered by agent0-sdk.", "https://outside.example/agent.png");
    await agent.setMCP("https://outside.example/mcp", "2025-06-18", false);
    await agent.setA2A("https://outside.example/.well-known/agent-card.json", "0.30", false);
    agent.setENS("outside.eth");
    agent.setActive(true);
    agent.setTrust(true, false, true);
    const { result } = await (await agent.registerOnChain()).waitMined();
    return { agentId: result.agentId, account: account.address };
  },
  // Gives feedback on an agent.
  async rate() {
    const { result } = await (await sdk().giveFeedback(asked.agent, asked.value, "reliable", "swap")).waitMined();
    return { value: result.value, tags: result.tags, reviewer: account.address };
  },
  // Reads an agent, one feedback, and the summary of all, from the chain and from the devnet's subgraph.
  async read() {
    const chainOnly = sdk();
    // The package learns the registry's address by this call only.
    chainOnly.reputationRegistryAddress();
    const agent = await chainOnly.loadAgent(asked.agent);
    const feedback = await chainOnly.getFeedback(asked.rated, asked.client, 1);
    const graph = `${devnet.order_service}/subgraphs/${chain.name}`;
    const withGraph = sdk({ subgraphOverrides: { [chain.chain_id]: graph } });
    const found = await withGraph.searchAgents({ name: "Careful", chains: [chain.chain_id] });
    const summary = await withGraph.getAgent(asked.agent);
    return {
      name: agent.name,
      description: agent.description,
      mcp: agent.mcpEndpoint,
      a2a: agent.a2aEndpoint,
      ens: agent.ensEndpoint,
      // loadAgent leaves these lists out of what it reads; the subgraph has them from the same file.
      tools: summary?.mcpTools,
      prompts: summary?.mcpPrompts,
      resources: summary?.mcpResources,
      skills: summary?.a2aSkills,
      feedback: { value: feedback.value, tags: feedback.tags, isRevoked: feedback.isRevoked },
      onChain: await chainOnly.getReputationSummary(asked.rated),
      inGraph: await withGraph.getReputationSummary(asked.rated),
      found: found.map((one) => one.agentId),
      graphName: summary?.name,
      reviews: (await withGraph.searchFeedback({ agentId: asked.rated })).map((one) => one.text ?? null),
    };
  },
};

console.log(JSON.stringify(await steps[asked.step]()));
