"""What a knowledge base holds, what is wrong with it, and how it is changed."""
