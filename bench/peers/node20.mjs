// Restate's SDK calls Promise.withResolvers, which Node has from 22 on. Imported before the SDK, for Node 20.
Promise.withResolvers ??= function withResolvers() {
  const parts = {};
  parts.promise = new this((resolve, reject) => Object.assign(parts, { resolve, reject }));
  return parts;
};
