package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"github.com/vidra-operator/vidra/e2e/testenv"
)

func main() {
	if err := run(context.Background(), os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

// run runs one of the commands image, push and dist.
func run(ctx context.Context, args []string) (err error) {
	if len(args) == 0 {
		return errors.New("name a command: image, push or dist")
	}
	flags := flag.NewFlagSet("release", flag.ExitOnError)
	version := flags.String("version", "", "The version of the programs and of the image.")
	image := flags.String("image", "", "The name and tag of the image.")
	platforms := flags.String("platforms", "", "The platforms of the image, separated by commas, such as linux/amd64.")
	_ = flags.Parse(args[1:]) // it ends the process
	r := release{version: *version, cli: cliPlatforms}
	for text := range strings.SplitSeq(*platforms, ",") {
		system, arch, _ := strings.Cut(text, "/")
		r.operator = append(r.operator, platform{system, arch})
	}
	if r.image, err = name.NewTag(*image); err != nil {
		return err
	}
	if r.root, err = testenv.Root(); err != nil {
		return err
	}
	if r.commit, err = readCommit(ctx, r.root); err != nil {
		return err
	}
	switch args[0] {
	case "image":
		return r.writeImage(ctx, filepath.Join(r.root, "bin"))
	case "push":
		return r.push(ctx, filepath.Join(r.root, "bin"))
	case "dist":
		return r.dist(ctx)
	}
	return fmt.Errorf("unknown command %q: it must be image, push or dist", args[0])
}

// writeImage writes the image to <dir>/image, and loads it into the Docker engine if one runs.
func (r release) writeImage(ctx context.Context, dir string) error {
	images, err := r.buildImages(ctx, dir)
	if err != nil {
		return err
	}
	folder := filepath.Join(dir, "image")
	digest, err := r.writeLayout(folder, r.newIndex(images))
	if err != nil {
		return err
	}
	fmt.Printf("wrote %s: %s@%s\n", folder, r.image, digest)
	arch, err := exec.CommandContext(ctx, "docker", "version", "--format", "{{.Server.Arch}}").Output()
	if err != nil {
		fmt.Println("no Docker engine answers, so the image is not loaded into one")
		return nil //nolint:nilerr // an engine is optional
	}
	return r.load(ctx, images[platform{"linux", strings.TrimSpace(string(arch))}])
}

// load loads an image into the Docker engine.
func (r release) load(ctx context.Context, image v1.Image) error {
	if image == nil {
		return errors.New("the image is not built for the platform of the Docker engine")
	}
	archive, w := io.Pipe()
	go func() { _ = w.CloseWithError(tarball.Write(r.image, image, w)) }()
	cmd := exec.CommandContext(ctx, "docker", "load")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = archive, os.Stdout, os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("docker load: %w", err)
	}
	return nil
}

// push builds the image below dir, and pushes it for all platforms to the registry that its name
// has, with the credentials of `docker login`.
func (r release) push(ctx context.Context, dir string) error {
	images, err := r.buildImages(ctx, dir)
	if err != nil {
		return err
	}
	index := r.newIndex(images)
	if err := remote.WriteIndex(r.image, index, remote.WithContext(ctx), remote.WithAuthFromKeychain(authn.DefaultKeychain)); err != nil {
		return fmt.Errorf("pushing %s: %w", r.image, err)
	}
	digest, err := index.Digest()
	fmt.Printf("pushed %s@%s\n", r.image, digest)
	return err
}
