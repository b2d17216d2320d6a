/** Scripts by which shells complete commands and options. */
import { badRequest, shownText } from '#lib/errors.ts';
import { optionsOf } from './command.ts';

/**
 * @param commands names of all, of one or two words, with their usages
 * @throws {TsdbError} BAD_REQUEST for another shell
 */
export function completionScript(
  shell: string,
  commands: readonly (readonly [name: string, usage: string])[],
): string {
  const names = commands.map(([name]) => name);
  const firsts = [...new Set(names.map((name) => name.split(' ')[0]!))];
  const seconds = (first: string): string[] =>
    names.flatMap((name) => (name.startsWith(`${first} `) ? [name.slice(first.length + 1)] : []));
  const cases = firsts
    .filter((first) => seconds(first).length > 0)
    .map((first) => `      ${first}) words="${seconds(first).join(' ')}" ;;`)
    .join('\n');
  const flags = commands
    .map(([name, usage]) => {
      const pattern = name.includes(' ') ? `"${name}"` : `${name}" "*`;
      const options = [...optionsOf(usage)].map((option) => `--${option}`).join(' ');
      return `      ${pattern}) words="${options}" ;;`;
    })
    .join('\n');
  const bash = `_tsdbctl() {
  local word="\${COMP_WORDS[COMP_CWORD]}" words=""
  if [[ $word == -* ]]; then
    case "\${COMP_WORDS[1]} \${COMP_WORDS[2]}" in
${flags}
    esac
  elif (( COMP_CWORD == 1 )); then words="${firsts.join(' ')}"
  elif (( COMP_CWORD == 2 )); then
    case "\${COMP_WORDS[1]}" in
${cases}
    esac
  fi
  if [[ -n $words ]]; then COMPREPLY=($(compgen -W "$words" -- "$word")); else COMPREPLY=($(compgen -f -- "$word")); fi
}
complete -F _tsdbctl tsdbctl`;
  switch (shell) {
    case 'bash':
      return bash;
    case 'zsh':
      return `autoload -U +X bashcompinit && bashcompinit\n${bash}`;
    case 'fish': {
      const none = '__fish_use_subcommand';
      return [
        `complete -c tsdbctl -f -n ${none} -a "${firsts.join(' ')}"`,
        ...firsts.flatMap((first) =>
          seconds(first).length === 0
            ? []
            : [
                `complete -c tsdbctl -n "__fish_seen_subcommand_from ${first}" -a "${seconds(first).join(' ')}"`,
              ],
        ),
        ...commands.flatMap(([name, usage]) => {
          const [first, second] = name.split(' ');
          const seen = `__fish_seen_subcommand_from`;
          const when = `${seen} ${first}${second === undefined ? '' : `; and ${seen} ${second}`}`;
          return [...optionsOf(usage)].map(
            (option) => `complete -c tsdbctl -n "${when}" -l ${option}`,
          );
        }),
      ].join('\n');
    }
    default:
      throw badRequest(`none of bash, zsh and fish: ${shownText(shell)}`);
  }
}
