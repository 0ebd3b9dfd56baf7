// Restate's SDK calls Promise.withResolvers, which Node has since version 22. For Node 20, import this before the SDK.
Promise.withResolvers ??= function withResolvers() {
  const parts = {};
  parts.promise = new this((resolve, reject) => Object.assign(parts, { resolve, reject }));
  return parts;
};
