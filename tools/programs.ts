import { readFileSync } from 'node:fs';
import { homedir } from 'node:os';
import { join } from 'node:path';

/** A program that is built from Go modules; `tools/<name>/go.mod` pins it. */
export interface Program {
  name: string;
  /** The version of its module, such as `v3.7.6`. */
  version: string;
  /** The executables that the build makes. */
  binaries: string[];
  /** Build tags: what is left out. */
  tags: string;
  /** Linker flags that tell the program its version; without a release build it would not know it. */
  ldflags: string;
}

/** Custom resource definitions that a Go module brings. */
export interface Definitions {
  module: string;
  version: string;
  /** Where in the module they are. */
  folder: string;
}

/** What could not be had from Go modules, each with the reason; `npm run check:stack` prints it. */
export const NOT_CHECKED = [
  "The charts, but cert-manager's: they are in no Go module at our version, so the checks use what they render from our values.",
  'Alloy: half an hour or more to build, too long for each run. Lines are pushed with the labels of its configuration.',
  'Grafana: its front end is not in a Go module. The queries of its dashboards run against Prometheus and Loki.',
  'Nodes and containers: there is no kubelet. Objects are stored and validated, and no pod runs.',
];

const FOLDER = import.meta.dirname;

/** Every program, in the order in which they are built: the longest first. */
export function readPrograms(): Program[] {
  return [
    readProgram('loki', 'github.com/grafana/loki/v3', ['loki'], ({ version }) => [
      ['github.com/grafana/loki/v3/pkg/util/build.Version', version.slice(1)],
    ]),
    readProgram('kube-apiserver', 'k8s.io/kubernetes', ['kube-apiserver', 'kubectl'], ({ version }) => [
      ['k8s.io/component-base/version.gitVersion', version],
      ['k8s.io/component-base/version.gitMajor', version.slice(1).split('.')[0] ?? ''],
      ['k8s.io/component-base/version.gitMinor', version.split('.')[1] ?? ''],
    ]),
    readProgram(
      'prometheus-operator',
      'github.com/prometheus-operator/prometheus-operator',
      ['operator', 'admission-webhook'],
      ({ version }) => [['github.com/prometheus/common/version.Version', version.slice(1)]],
    ),
    {
      // Module v0.314.0 is release 3.14.0. Of its ways to discover targets only that of Kubernetes is needed.
      ...readProgram('prometheus', 'github.com/prometheus/prometheus', ['prometheus'], () => [
        ['github.com/prometheus/common/version.Version', '3.14.0'],
      ]),
      tags: 'remove_all_sd,enable_kubernetes_sd',
    },
    readProgram('helm', 'helm.sh/helm/v3', ['helm'], ({ version }) => [
      ['helm.sh/helm/v3/internal/version.version', version],
    ]),
  ];
}

/** Where the operators' own definitions are read from, each at the version that the pinned charts install. */
export function readDefinitions(): Definitions[] {
  return JSON.parse(readFileSync(join(FOLDER, 'definitions.json'), 'utf8')) as Definitions[];
}

/** Where the built executables of a program are kept, outside the repository. */
export function cacheFolder({ name, version }: Pick<Program, 'name' | 'version'>): string {
  return join(process.env.XDG_CACHE_HOME ?? join(homedir(), '.cache'), 'activity-sync', name, version);
}

/** The path of a built executable. @throws when no program has it */
export function findBuilt(binary: string): string {
  const program = readPrograms().find(({ binaries }) => binaries.includes(binary));
  if (program === undefined) throw new Error(`No program of tools/ has the executable ${binary}`);
  return join(cacheFolder(program), binary);
}

function readProgram(
  name: string,
  module: string,
  binaries: string[],
  variables: (pin: { version: string }) => [string, string][],
): Program {
  const pins = readFileSync(join(FOLDER, name, 'go.mod'), 'utf8');
  const version = new RegExp(`^(?:require |\\t)${module} (v\\S+)`, 'm').exec(pins)?.[1];
  if (version === undefined) throw new Error(`tools/${name}/go.mod does not require ${module}`);
  const ldflags = variables({ version }).map(([variable, value]) => `-X ${variable}=${value}`);
  return { name, version, binaries, tags: '', ldflags: ['-s -w', ...ldflags].join(' ') };
}
