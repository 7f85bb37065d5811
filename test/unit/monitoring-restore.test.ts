import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from '@jest/globals';
import { parseAllDocuments } from 'yaml';
import { fillIn, type Resource } from '../../k8s/src/read-layers.ts';
import { findSchemaProblems } from '../../k8s/src/resource-models.ts';
import { findResource, settings } from '../support/manifests.ts';

const manual = readFileSync(join(import.meta.dirname, '../../docs/monitoring.md'), 'utf8');
const restoring = manual.slice(manual.indexOf('### Restore'));
const [, manifests = ''] = /^```yaml\n([\s\S]*?)^```/m.exec(restoring) ?? [];
const restored = parseAllDocuments(fillIn(manifests, settings)).map((document) => document.toJS() as Resource);
const [cluster, schedule] = restored;
const RESTORED = 'activity-sync-db-restored';

describe('the database cluster that the manual restores into', () => {
  it('fits its schema', async () => {
    expect(restored.map(({ kind }) => kind)).toEqual(['Cluster', 'ScheduledBackup']);
    for (const resource of restored) expect(await findSchemaProblems(resource)).toEqual([]);
  });

  it('is as safe as the one before: replicas, archiving and a backup each night', () => {
    const { bootstrap: _, ...former } = findResource('Cluster', 'activity-sync-db').spec;
    const { bootstrap, externalClusters, ...spec } = cluster?.spec ?? {};
    expect(spec).toEqual(former);
    expect(bootstrap.recovery.source).toBe(externalClusters[0].name);
    const nightly = findResource('ScheduledBackup', 'activity-sync-db-nightly').spec;
    expect(schedule?.spec).toEqual({ ...nightly, cluster: { name: RESTORED } });
  });

  it('is reached by the service and the migration, and its metrics are scraped', () => {
    expect(cluster?.metadata.name).toBe(RESTORED);
    const names = { key: 'cnpg.io/cluster', operator: 'In', values: ['activity-sync-db', RESTORED] };
    const { egress } = findResource('NetworkPolicy', 'activity-sync').spec;
    const toDatabase = egress.find(({ ports }: { ports: { port: number }[] }) => ports[0]?.port === 5432);
    expect(toDatabase.to).toEqual([{ podSelector: { matchExpressions: [names] } }]);
    expect(findResource('PodMonitor', 'activity-sync-db').spec.selector).toEqual({ matchExpressions: [names] });
  });

  it('is served again: what was scaled to 0 is scaled back to the least that the autoscalers allow', () => {
    const scaled = (replicas: number) =>
      `kubectl -n activity-sync scale deploy activity-sync-web activity-sync-worker --replicas=${replicas}`;
    const { minReplicas } = findResource('HorizontalPodAutoscaler', 'activity-sync-web').spec;
    expect(restoring.indexOf(scaled(0))).toBeGreaterThan(0);
    expect(restoring.indexOf(scaled(minReplicas))).toBeGreaterThan(restoring.indexOf(scaled(0)));
  });
});

describe('the volume that the manual restores', () => {
  it('comes with the snapshot that it is made from', () => {
    const [, included = ''] = /--include-resources (\S+)/.exec(restoring) ?? [];
    expect(included.split(',').sort()).toEqual([
      'persistentvolumeclaims',
      'persistentvolumes',
      'volumesnapshotcontents.snapshot.storage.k8s.io',
      'volumesnapshots.snapshot.storage.k8s.io',
    ]);
  });
});
