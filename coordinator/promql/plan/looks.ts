/**
 * The times at which the selectors of an expression look at their series. `info` looks at info series at the same time as
 * its argument does at its own, when that is one time.
 */
import { type Expr, type Subquery, typeOf, type VectorSelector } from '../parse/ast.ts';

/** At each step at the time pinned by `@` less the offset, or at the step's time less the offset. */
export interface Look {
  readonly pinnedMillis: number | null;
  readonly offsetMillis: number;
}

/** Of all selectors of an expression. */
interface Found {
  /** Offsets of those that are not pinned. Of more than two different ones it does not matter which. */
  readonly offsets: readonly number[];
  /** Times of those that are pinned, offset included; likewise. */
  readonly pinned: readonly number[];
  /** Some part gives series without a selector, so at the time of evaluation. */
  readonly hasOthers: boolean;
}

const nothing: Found = { offsets: [], pinned: [], hasOthers: false };

export class Looks {
  readonly #lookOf: (of: VectorSelector | Subquery) => Look;
  /** What stands inside of others is asked for with each of them. */
  readonly #found = new Map<Expr, Found>();

  /** @param lookOf what the modifiers of one say */
  constructor(lookOf: (of: VectorSelector | Subquery) => Look) {
    this.#lookOf = lookOf;
  }

  /** The look that all selectors of the expression have in common; null when there is none. */
  commonOf(expr: Expr): Look | null {
    const { offsets, pinned, hasOthers } = this.#of(expr);
    if (hasOthers || offsets.length + pinned.length !== 1) return null;
    const [pinnedMillis] = pinned;
    if (pinnedMillis !== undefined) return { pinnedMillis, offsetMillis: 0 };
    return { pinnedMillis: null, offsetMillis: offsets[0]! };
  }

  #of(expr: Expr): Found {
    let found = this.#found.get(expr);
    if (found === undefined) {
      found = this.#find(expr);
      this.#found.set(expr, found);
    }
    return found;
  }

  #find(expr: Expr): Found {
    const type = typeOf(expr);
    if (type !== 'vector' && type !== 'matrix') return nothing;
    switch (expr.kind) {
      case 'vectorSelector':
        return moved({ ...nothing, offsets: [0] }, this.#lookOf(expr));
      case 'matrixSelector':
        return this.#of(expr.selector);
      case 'subquery':
        return moved(this.#joined([expr.expr]), this.#lookOf(expr));
      case 'call':
        // What `info` has beside its first argument is never evaluated.
        return expr.name === 'info' ? this.#of(expr.args[0]!) : this.#joined(expr.args);
      case 'aggregate':
        return this.#joined(expr.parameter === null ? [expr.expr] : [expr.parameter, expr.expr]);
      case 'binary':
        return this.#joined([expr.left, expr.right]);
      case 'unary':
      case 'paren':
        return this.#joined([expr.expr]);
      case 'number':
      case 'string':
        return nothing;
    }
  }

  #joined(parts: readonly Expr[]): Found {
    const all = parts.map((part) => this.#of(part));
    const offsets = atMostTwo(all.flatMap((found) => found.offsets));
    const pinned = atMostTwo(all.flatMap((found) => found.pinned));
    const isEmpty = offsets.length + pinned.length === 0;
    return { offsets, pinned, hasOthers: isEmpty || all.some((found) => found.hasOthers) };
  }
}

/** As the modifiers around them move those that are not pinned. */
function moved(found: Found, { pinnedMillis, offsetMillis }: Look): Found {
  const offsets = found.offsets.map((offset) => offset + offsetMillis);
  if (pinnedMillis === null) return { ...found, offsets };
  const pinned = offsets.map((offset) => pinnedMillis - offset);
  return { ...found, offsets: [], pinned: atMostTwo([...found.pinned, ...pinned]) };
}

function atMostTwo(millis: readonly number[]): readonly number[] {
  return [...new Set(millis)].slice(0, 2);
}
