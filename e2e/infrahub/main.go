// Command infrahub is a stand-in for an Infrahub server: the artifacts are the files of a folder.
//
//	go run ./e2e/infrahub --artifacts=FOLDER
//
// The id of an artifact is the name of its file, without the end .yaml. A file that is changed is another content of the
// artifact. The account is admin with the password infrahub.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/vidra-operator/vidra/e2e/infrahub/standin"
)

func main() {
	listen := flag.String("listen", "127.0.0.1:8000", "the address to listen on")
	folder := flag.String("artifacts", ".", "the folder whose files *.yaml are the artifacts")
	name := flag.String("name", "Webserver_Manifest", "the name of the artifacts")
	branch := flag.String("branch", "main", "the branch of the artifacts")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := serve(ctx, *listen, *folder, *name, *branch)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "infrahub:", err)
		os.Exit(1)
	}
}

// serve serves the artifacts of a folder until ctx ends.
func serve(ctx context.Context, listen, folder, name, branch string) error {
	artifacts := standin.New(standin.Options{})
	server := &http.Server{Addr: listen, ReadHeaderTimeout: 5 * time.Second, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := load(artifacts, folder, name, branch); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		artifacts.ServeHTTP(w, r)
	})}
	context.AfterFunc(ctx, func() { _ = server.Close() })
	fmt.Printf("artifacts %s of %s at http://%s\n", name, folder, listen)
	if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// load has the server have the artifacts of a folder.
func load(server *standin.Server, folder, name, branch string) error {
	files, err := filepath.Glob(filepath.Join(folder, "*.yaml"))
	if err != nil {
		return err
	}
	var all []standin.Artifact
	for _, file := range files {
		text, err := os.ReadFile(file) //nolint:gosec // a file of the folder
		if err != nil {
			return err
		}
		all = append(all, standin.Artifact{ID: strings.TrimSuffix(filepath.Base(file), ".yaml"), Name: name, Branch: branch, Content: string(text)})
	}
	server.Replace(all...)
	return nil
}
