import { compose } from '../compose.ts';
import { usage } from '../errors.ts';
import type { Command, Flags } from '../types.ts';
import { pairs } from './common.ts';
import { userOf } from './image-common.ts';
import {
  editPlatformFlag,
  held,
  madeResult,
  namedImage,
  resultArgument,
  storedImageArgument,
  transferOf,
} from './image-edit.ts';

export const command: Command = {
  path: 'image config',
  summary: 'change the settings, labels and annotations of an image',
  description:
    'What is not named stays. A new entrypoint without a cmd drops the old cmd, as with Docker. An empty value removes. Signatures of the old image do not hold for the new one.',
  arguments: [storedImageArgument, resultArgument],
  flags: [
    editPlatformFlag,
    {
      name: 'entrypoint',
      own: true,
      type: 'list',
      value: 'WORD',
      summary: 'the entrypoint, one word each time',
    },
    { name: 'cmd', own: true, type: 'list', value: 'WORD', summary: 'the command, one word each time' },
    { name: 'env', own: true, type: 'list', value: 'NAME=VALUE', summary: 'a variable to set' },
    { name: 'unset-env', own: true, type: 'list', value: 'NAME', summary: 'a variable to remove' },
    { name: 'label', own: true, type: 'list', value: 'KEY=VALUE', summary: 'a label to set' },
    { name: 'unset-label', own: true, type: 'list', value: 'KEY', summary: 'a label to remove' },
    { name: 'annotation', own: true, type: 'list', value: 'KEY=VALUE', summary: 'an annotation to set' },
    { name: 'unset-annotation', own: true, type: 'list', value: 'KEY', summary: 'an annotation to remove' },
    { name: 'user', own: true, type: 'string', value: 'USER', summary: 'the user that it runs as' },
    { name: 'workdir', own: true, type: 'string', value: 'PATH', summary: 'its working folder' },
    { name: 'stop-signal', own: true, type: 'string', value: 'SIGNAL', summary: 'the signal that ends it' },
  ],
  examples: [
    {
      line: 'skycap image config localhost/app:1 localhost/app:1 --env LANG=C.UTF-8 --user 1000:1000',
      does: 'under the same name',
    },
  ],
  async run({ flags, arguments: [text, name] }, context) {
    const changes = read(flags);
    await using rooms = compose(context);
    const store = await rooms.store();
    const base = await namedImage(store, text as string, flags);
    await using _held = await held(store, base);
    const images = await (await import('../../oci/index.ts')).loadImages();
    const before = await images.readImageValue(store, base);
    const { env, labels } = before.config.run;
    const kept = env.filter((line) => !changes.unsetEnv.includes(line.split('=', 1)[0] as string));
    const edited = images.withRunConfig(before, {
      ...changes.config,
      env: images.withEnv(kept, changes.env),
      labels: {
        ...Object.fromEntries(Object.entries(labels).filter(([key]) => !changes.unsetLabels.includes(key))),
        ...changes.labels,
      },
    });
    const { set, remove } = changes.annotations;
    const isAnnotated = Object.keys(set).length + remove.length > 0;
    const value = isAnnotated ? images.annotate(edited, { set, remove }) : edited;
    const options = { ...transferOf(context), reference: name as string };
    await context.result(madeResult(await images.writeImageValue(store, value, options)));
    return 0;
  },
};

function read(flags: Flags) {
  const words = (name: string): readonly string[] | undefined => {
    if (!flags.given(name)) return undefined;
    const list = flags.list(name);
    // One empty word is how a list is emptied.
    return list.length === 1 && list[0] === '' ? [] : list;
  };
  const [entrypoint, cmd] = [words('entrypoint'), words('cmd')];
  const user = userOf(flags);
  const [workingDir, stopSignal] = ['workdir', 'stop-signal'].map((name) => flags.string(name));
  if (workingDir !== undefined && workingDir !== '' && !workingDir.startsWith('/')) {
    throw usage(
      `--workdir ${JSON.stringify(workingDir)} is not absolute`,
      'write the whole path in the image',
    );
  }
  if (stopSignal !== undefined && !/^(SIG[A-Z]+([+-][0-9]+)?|[0-9]{1,2}|)$/.test(stopSignal)) {
    throw usage(
      `--stop-signal ${JSON.stringify(stopSignal)} is no signal`,
      'write it as SIGTERM, or its number',
    );
  }
  const changes = {
    config: {
      ...(entrypoint === undefined ? {} : { entrypoint }),
      ...(cmd === undefined ? {} : { cmd }),
      ...(user === undefined ? {} : { user }),
      ...(workingDir === undefined ? {} : { workingDir }),
      ...(stopSignal === undefined ? {} : { stopSignal }),
    },
    env: pairs(flags.list('env'), '--env'),
    unsetEnv: flags.list('unset-env'),
    labels: pairs(flags.list('label'), '--label'),
    unsetLabels: flags.list('unset-label'),
    annotations: {
      set: pairs(flags.list('annotation'), '--annotation'),
      remove: flags.list('unset-annotation'),
    },
  };
  return changes;
}
