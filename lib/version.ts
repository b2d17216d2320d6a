/** Of the product; package.json has the same, which a test holds. */
export const version = '0.1.0';
