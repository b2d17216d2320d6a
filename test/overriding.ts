/**
 * The object with some members replaced, for tests that make one method fail or wait. Everything
 * else is the object's own, private members too, which an object made from it as a prototype has
 * not.
 */
export function overriding<T extends object>(target: T, members: Partial<T>): T {
  return new Proxy(target, {
    get(_, key) {
      if (Object.hasOwn(members, key)) return members[key as keyof T];
      const value: unknown = Reflect.get(target, key, target);
      return typeof value === 'function' ? value.bind(target) : value;
    },
  });
}
