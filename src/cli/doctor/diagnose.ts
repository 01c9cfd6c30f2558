import { formatBytes } from '../render/units.ts';
import type { HostFacts } from './facts.ts';

export interface Finding {
  readonly check: string;
  /** `problem` stands in the way of something named in `message`; `warning` narrows what works. */
  readonly status: 'ok' | 'warning' | 'problem';
  readonly message: string;
  /** A command or an act. */
  readonly fix?: string;
}

/** Debian's name of the package where it differs from the program's. */
const packages: Readonly<Record<string, string>> = {
  docker: 'docker.io',
  ip: 'iproute2',
  unshare: 'util-linux',
  nsenter: 'util-linux',
  mount: 'mount',
  newuidmap: 'uidmap',
};

/** The install line for this distribution. */
export function installLine(program: string, distribution: readonly string[]): string {
  const debian = packages[program] ?? program;
  const other =
    { docker: 'docker', ip: 'iproute', newuidmap: 'shadow-utils', mount: 'util-linux' }[program] ?? debian;
  if (distribution.some((id) => ['fedora', 'rhel', 'centos'].includes(id))) {
    return `dnf install ${other}`;
  }
  if (distribution.some((id) => ['suse', 'opensuse'].includes(id))) {
    return `zypper install ${other}`;
  }
  if (distribution.includes('arch')) {
    return `pacman -S ${other}`;
  }
  return distribution.includes('alpine') ? `apk add ${other}` : `apt-get install ${debian}`;
}

/** Every trouble of a host that is known to end in a message which does not name it. */
export function diagnose(facts: HostFacts): readonly Finding[] {
  return [
    ...node(facts),
    ...runtime(facts),
    ...userNamespaces(facts),
    ...networking(facts),
    ...cgroups(facts),
    ...limits(facts),
    ...docker(facts),
    ...directories(facts),
  ];
}

function node({ nodeVersion }: HostFacts): Finding[] {
  const isNew = Number(nodeVersion.split('.')[0]) >= 24;
  return [
    isNew
      ? ok('node', `Node ${nodeVersion}`)
      : {
          check: 'node',
          status: 'problem',
          message: `Node ${nodeVersion} is too old`,
          fix: 'install Node 24 or newer',
        },
  ];
}

function runtime({ programs, distribution, filesystems, uid }: HostFacts): Finding[] {
  const findings: Finding[] = [];
  if (programs.crun !== undefined) {
    findings.push(ok('crun', programs.crun));
  } else {
    const rest =
      programs.runc === undefined
        ? 'steps run only where Docker answers'
        : 'runc is there, which starts slower';
    findings.push({
      check: 'crun',
      status: 'warning',
      message: `crun is not installed: ${rest}`,
      fix: installLine('crun', distribution),
    });
  }
  for (const program of ['unshare', 'nsenter', 'mount'] as const) {
    if (programs[program] === undefined) {
      findings.push({
        check: program,
        status: 'problem',
        message: `${program} is not installed: the embedded engine cannot make its namespaces`,
        fix: installLine(program, distribution),
      });
    }
  }
  if (!filesystems.includes('overlay')) {
    findings.push({
      check: 'overlay',
      status: 'problem',
      message: 'the kernel has no overlay file system: the embedded engine cannot share layers',
      fix: 'modprobe overlay',
    });
  }
  if (uid !== 0 && programs.newuidmap === undefined) {
    findings.push({
      check: 'newuidmap',
      status: 'warning',
      message: 'newuidmap is not installed: an ordinary user has one id only',
      fix: installLine('newuidmap', distribution),
    });
  }
  return findings;
}

function userNamespaces(facts: HostFacts): Finding[] {
  if (facts.maxUserNamespaces === undefined || facts.maxUserNamespaces === 0) {
    return [
      {
        check: 'user namespaces',
        status: 'problem',
        message: 'user namespaces are switched off: the embedded engine refuses to run without them',
        fix: 'sysctl -w user.max_user_namespaces=15000',
      },
    ];
  }
  if (facts.uid === 0) {
    return [ok('user namespaces', `up to ${facts.maxUserNamespaces}`)];
  }
  const findings: Finding[] = [];
  if (!facts.unprivilegedUserNamespaces) {
    findings.push({
      check: 'user namespaces',
      status: 'problem',
      message: 'ordinary users may not make user namespaces',
      fix: 'sysctl -w kernel.unprivileged_userns_clone=1',
    });
  }
  if (facts.appArmorRestrictsUserNamespaces) {
    findings.push({
      check: 'user namespaces',
      status: 'problem',
      message: 'AppArmor keeps ordinary users from using their user namespaces',
      fix: 'sysctl -w kernel.apparmor_restrict_unprivileged_userns=0',
    });
  }
  if (!facts.subordinateIds) {
    findings.push({
      check: 'subordinate ids',
      status: 'warning',
      message: 'this user has no range in /etc/subuid: images with several users cannot run',
      fix: 'usermod --add-subuids 100000-165535 --add-subgids 100000-165535 USER',
    });
  }
  return findings.length === 0 ? [ok('user namespaces', 'usable')] : findings;
}

function networking({ programs, distribution, tun, uid }: HostFacts): Finding[] {
  const findings: Finding[] = [];
  if (programs.slirp4netns === undefined) {
    findings.push({
      check: 'slirp4netns',
      status: 'warning',
      message: 'slirp4netns is not installed: steps of the embedded engine have no network',
      fix: installLine('slirp4netns', distribution),
    });
  } else {
    findings.push(ok('slirp4netns', programs.slirp4netns));
  }
  if (programs.ip === undefined) {
    findings.push({
      check: 'ip',
      status: 'warning',
      message: 'ip is not installed: metadata addresses cannot be cut off, so steps get no network',
      fix: installLine('ip', distribution),
    });
  }
  if (tun === 'missing') {
    findings.push({
      check: '/dev/net/tun',
      status: 'warning',
      message: '/dev/net/tun is not there: slirp4netns fails with a message that names itself only',
      fix: 'modprobe tun, or give the container --device /dev/net/tun',
    });
  } else if (tun === 'denied') {
    findings.push({
      check: '/dev/net/tun',
      status: 'warning',
      message:
        '/dev/net/tun cannot be opened by this user: slirp4netns fails with a message that names itself only',
      fix: 'chmod 0666 /dev/net/tun',
    });
  } else if (uid !== 0) {
    findings.push(ok('/dev/net/tun', 'usable'));
  }
  return findings;
}

function cgroups(facts: HostFacts): Finding[] {
  if (facts.cgroups === 'unified' || facts.cgroups === 'legacy') {
    return [ok('cgroups', facts.cgroups === 'unified' ? 'version 2' : 'version 1')];
  }
  if (facts.cgroups === 'mixed') {
    return [
      {
        check: 'cgroups',
        status: 'warning',
        message:
          'versions 1 and 2 are mixed: crun by itself says "cgroups in hybrid mode not supported"; the embedded engine makes its own groups',
        fix: 'boot with systemd.unified_cgroup_hierarchy=1',
      },
    ];
  }
  return [
    {
      check: 'cgroups',
      status: 'warning',
      message: 'no cgroup file system is mounted: limits of steps cannot be kept',
      fix: 'mount -t cgroup2 none /sys/fs/cgroup',
    },
  ];
}

function limits({ limits: hard }: HostFacts): Finding[] {
  const findings: Finding[] = [];
  if (hard.openFiles < 4_096) {
    findings.push({
      check: 'open files',
      status: 'warning',
      message: `the hard limit of open files is ${hard.openFiles}: large images may not unpack`,
      fix: 'raise nofile in /etc/security/limits.conf',
    });
  } else if (hard.openFiles < 1_048_576) {
    findings.push({
      check: 'open files',
      status: 'warning',
      message: `the hard limit of open files is ${hard.openFiles}: Podman asks for 1048576 and says "setrlimit RLIMIT_NOFILE: Operation not permitted"`,
      fix: `for Podman set default_ulimits=["nofile=${hard.openFiles}:${hard.openFiles}"] in containers.conf`,
    });
  }
  if (hard.processes < 1_024) {
    findings.push({
      check: 'processes',
      status: 'warning',
      message: `the hard limit of processes is ${hard.processes}`,
      fix: 'raise nproc in /etc/security/limits.conf',
    });
  }
  return findings;
}

function docker({ docker: { socket, state }, programs }: HostFacts): Finding[] {
  if (state === 'answers') {
    return [ok('docker', socket)];
  }
  const reasons = {
    denied: {
      message: `${socket} may not be opened by this user`,
      fix: 'usermod -aG docker USER, which is as good as root',
    },
    missing: {
      message: `${socket} is not there`,
      fix: programs.docker === undefined ? 'not needed where crun is installed' : 'start dockerd',
    },
    silent: { message: `nobody answers on ${socket}`, fix: 'start dockerd' },
  };
  return [{ check: 'docker', status: 'warning', ...reasons[state] }];
}

function directories(facts: HostFacts): Finding[] {
  return facts.directories.map(({ name, path, writable, freeBytes, kind }): Finding => {
    const check = `${name} folder`;
    if (!writable) {
      return {
        check,
        status: 'problem',
        message: `${path} is not writable`,
        fix: `chown ${facts.uid} ${path}`,
      };
    }
    if (name === 'state' && kind === 'network') {
      return {
        check,
        status: 'problem',
        message: `${path} is on a network file system, where locks do not hold`,
        fix: 'set SKYCAP_STATE_DIRECTORY to a local folder',
      };
    }
    if (name === 'runtime' && kind !== 'memory') {
      return {
        check,
        status: 'problem',
        message: `${path} is not in memory, so it cannot hold secrets`,
        fix: 'set SKYCAP_RUNTIME_DIRECTORY to a folder on a tmpfs',
      };
    }
    const least = name === 'runtime' ? 16e6 : 1e9;
    return freeBytes < least
      ? {
          check,
          status: 'warning',
          message: `${path} has ${formatBytes(freeBytes)} left`,
          fix: 'run skycap image prune, or free some space',
        }
      : ok(check, `${path}, ${formatBytes(freeBytes)} free`);
  });
}

function ok(check: string, message: string): Finding {
  return { check, status: 'ok', message };
}

/** Is there at least one engine that can run a step? */
export function hasEngine(facts: HostFacts): boolean {
  const isEmbedded =
    (facts.programs.crun ?? facts.programs.runc) !== undefined &&
    facts.uid === 0 &&
    (facts.maxUserNamespaces ?? 0) > 0;
  return isEmbedded || facts.docker.state === 'answers';
}
