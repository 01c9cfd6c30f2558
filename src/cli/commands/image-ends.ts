import { join } from 'node:path';
import type { Ends, ImageSource, ImageTarget, Transport } from '../../oci/copy/index.ts';
import type { Composition } from '../compose.ts';
import type { Argument, Context, Flag } from '../types.ts';
import { findImage } from './image-common.ts';

/** How an image is named that may lie anywhere; in the commands that look at one. */
export const anyImageArgument: Argument = {
  name: 'IMAGE',
  required: true,
  summary:
    'name of an image in the store, or a transport: docker://NAME, oci:FOLDER[:REF], oci-archive:FILE, …',
};

export const transportsText =
  'Transports are those of containers-transports(5): `docker://NAME` for a registry, `oci:FOLDER[:REF]`, `oci-archive:FILE[:REF]`, `docker-archive:FILE[:NAME]`, `docker-daemon:NAME`, and `store:NAME` for the store. `:@0` names the first image of a layout or archive.';

export const platformsFlag: Flag = {
  name: 'platform',
  own: true,
  type: 'list',
  value: 'OS/ARCH',
  summary: 'a platform of an index, may be given many times; without it all',
};

/** What transports are opened with, each made when it is first asked for. */
function endsOf(context: Context, rooms: Composition): Ends {
  const { signal, emit, host } = context;
  return {
    signal,
    emit,
    directory: host.cwd,
    registry: rooms.registry,
    store: rooms.store,
    dockerSocket: async () => {
      const { dockerSocket } = await import('../compose-engine.ts');
      return await dockerSocket((await rooms.settings()).settings, host);
    },
    scratch: () => scratchOf(rooms),
  };
}

/** Where a copy puts what has to lie on disk meanwhile. */
export async function scratchOf(rooms: Composition): Promise<string> {
  return join((await rooms.settings()).settings.cacheDirectory, 'copy');
}

/** Opens the image that a command looks at; without a transport one of the store. */
export async function openImage(text: string, context: Context, rooms: Composition): Promise<ImageSource> {
  const { openSource, parseTransport } = await (await import('../../oci/index.ts')).loadCopy();
  const transport = parseTransport(text, 'store');
  await checkInStore(transport, rooms);
  return rooms.own(await openSource(transport, endsOf(context, rooms)));
}

/** The two ends of a copy; without a transport a name means a registry, as everywhere. */
export async function openEnds(
  words: readonly string[],
  options: { readonly context: Context; readonly rooms: Composition; readonly replace: boolean },
): Promise<{ readonly source: ImageSource; readonly target: ImageTarget }> {
  const { context, rooms, replace } = options;
  const { openSource, openTarget, parseTransport } = await (await import('../../oci/index.ts')).loadCopy();
  const [from, to] = words.map((word) => parseTransport(word, 'docker')) as [Transport, Transport];
  await checkInStore(from, rooms);
  const ends = endsOf(context, rooms);
  const source = rooms.own(await openSource(from, ends));
  return { source, target: rooms.own(await openTarget(to, ends, { replace })) };
}

/** Says it with the nearest name of the store. */
async function checkInStore(transport: Transport, rooms: Composition): Promise<void> {
  if (transport.kind !== 'store' || transport.reference.digest !== undefined) return;
  const { formatReference } = await import('../../oci/names/index.ts');
  await findImage(await rooms.store(), formatReference(transport.reference));
}
