// The cache of Argo CD's servers: miniredis, which Argo CD's own command line uses where there is
// no Redis. It keeps nothing on disk. Its clock has to be moved, or nothing would ever expire.
//
// The first argument is the address that it listens on.
package main

import (
	"log"
	"os"
	"time"

	"github.com/alicebob/miniredis/v2"
)

func main() {
	if len(os.Args) != 2 {
		log.Fatal("usage: redis ADDRESS:PORT")
	}
	server := miniredis.NewMiniRedis()
	if err := server.StartAddr(os.Args[1]); err != nil {
		log.Fatal(err)
	}
	for range time.Tick(time.Second) {
		server.FastForward(time.Second)
	}
}
