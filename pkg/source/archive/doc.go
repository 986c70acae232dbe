// Package archive keeps the archives that Vidra publishes as artifacts of Flux, and serves them over HTTP.
//
// An archive is in Secrets of Vidra's own namespace, so that each replica serves it, and so that a restart changes nothing. The path of an archive has the
// digest of its content.
package archive
