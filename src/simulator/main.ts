import { startSimulator } from './simulator.ts';

const historyLength = 40;

/** Runs a provider alone for development: on PORT (default 4000), with three athletes and their past. */
async function runSimulator(): Promise<void> {
  const simulator = await startSimulator({
    port: Number(process.env.PORT ?? 4_000),
    host: process.env.HOST ?? '127.0.0.1',
  });
  for (let index = 0; index < 3; index++) {
    simulator.addHistory(simulator.addAthlete().id, historyLength);
  }
  const { clientId, clientSecret } = simulator.settings;
  const lines = [
    `Simulated provider   ${simulator.url}`,
    `Client               ${clientId} / ${clientSecret}`,
    `Map tiles            ${simulator.url}/tiles/{z}/{x}/{y}.png`,
    ...simulator.athletes.map((athlete) => `Athlete              ${athlete.id} ${athlete.name}, ${athlete.place.city}`),
  ];
  process.stdout.write(`${lines.join('\n')}\n`);
  for (const signal of ['SIGINT', 'SIGTERM'] as const) {
    process.once(signal, () => void simulator.close());
  }
}

await runSimulator();
