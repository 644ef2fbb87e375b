// The built files have fixed names: they are committed, and the server embeds them.
export default {
  base: "/",
  build: {
    outDir: "../../crates/studio/assets",
    emptyOutDir: true,
    assetsInlineLimit: 0,
    modulePreload: false,
    cssCodeSplit: false,
    rollupOptions: {
      output: {
        entryFileNames: "studio.js",
        assetFileNames: "studio.[ext]",
      },
    },
  },
};
