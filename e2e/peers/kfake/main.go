// kfake, franz-go's in-memory broker, as a process: a peer for benchmarks. Usage: kfake PORT [FOLDER].
// With a folder it keeps its data there and syncs each write.
package main

import (
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"syscall"

	"github.com/twmb/franz-go/pkg/kfake"
)

func main() {
	if len(os.Args) != 2 && len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: kfake PORT [FOLDER]")
		os.Exit(2)
	}
	port, err := strconv.Atoi(os.Args[1])
	if err != nil {
		fmt.Fprintln(os.Stderr, "kfake: not a port:", os.Args[1])
		os.Exit(2)
	}
	options := []kfake.Opt{kfake.Ports(port), kfake.NumBrokers(1), kfake.AllowAutoTopicCreation()}
	if len(os.Args) == 3 {
		options = append(options, kfake.DataDir(os.Args[2]), kfake.SyncWrites())
	}
	cluster, err := kfake.NewCluster(options...)
	if err != nil {
		fmt.Fprintln(os.Stderr, "kfake:", err)
		os.Exit(1)
	}
	defer cluster.Close()
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, os.Interrupt, syscall.SIGTERM)
	<-stop
}
