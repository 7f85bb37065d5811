/** Preloaded into Jest's processes: drops the warning that its ES module support is experimental, and no other. */
const emit = process.emit;
process.emit = function emitUnlessVmModules(name, ...args) {
  const isVmModulesWarning =
    name === 'warning' && args[0]?.message?.startsWith('VM Modules is an experimental feature');
  return isVmModulesWarning ? false : emit.call(this, name, ...args);
};
